// What another PromQL engine answers to the alerts' expressions, beside what Prometheus's own says.
package rulers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
)

// A case of an alert: its series in promtool's notation, and the minutes at which its expression is asked.
type question struct {
	Name    string            `json:"name"`
	Series  map[string]string `json:"series"`
	Expr    string            `json:"expr"`
	Minutes []int             `json:"minutes"`
}

func compare(t *testing.T, ours, theirs promql.QueryEngine) {
	text, err := os.ReadFile(os.Getenv("CASES"))
	if err != nil {
		t.Fatal(err)
	}
	var questions []question
	if err := json.Unmarshal(text, &questions); err != nil {
		t.Fatal(err)
	}
	asked, found := 0, 0
	for _, each := range questions {
		var load strings.Builder
		load.WriteString("load 1m\n")
		for series, values := range each.Series {
			fmt.Fprintf(&load, "  %s %s\n", series, values)
		}
		stored := promqltest.LoadedStorage(t, load.String())
		for _, minute := range each.Minutes {
			at := time.Unix(int64(minute)*60, 0)
			said, also := answer(t, ours, stored, each, at), answer(t, theirs, stored, each, at)
			if strings.Join(said, "\n") != strings.Join(also, "\n") {
				t.Errorf("%s at %dm\nPrometheus: %q\nthe other:  %q", each.Name, minute, said, also)
			}
			asked, found = asked+1, found+len(said)
		}
		stored.Close()
	}
	fmt.Printf("  %d questions of %d cases, %d series answered\n", asked, len(questions), found)
	if found == 0 {
		t.Error("no case answered anything")
	}
}

// Labels and value of each series, in order.
func answer(t *testing.T, engine promql.QueryEngine, stored storage.Queryable, each question, at time.Time) []string {
	query, err := engine.NewInstantQuery(context.Background(), stored, nil, each.Expr, at)
	if err != nil {
		t.Fatalf("%s: %v", each.Name, err)
	}
	defer query.Close()
	result := query.Exec(context.Background())
	if result.Err != nil {
		return []string{"error: " + result.Err.Error()}
	}
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", each.Name, err)
	}
	lines := make([]string, 0, len(vector))
	for _, sample := range vector {
		lines = append(lines, fmt.Sprintf("%s %.9g", sample.Metric, sample.F))
	}
	sort.Strings(lines)
	return lines
}
