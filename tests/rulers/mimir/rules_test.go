// The rules in mimirtool's parser, and in Mimir's engine.
package rulers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kitlog "github.com/go-kit/log"
	"github.com/grafana/mimir/pkg/mimirtool/rules"
	"github.com/grafana/mimir/pkg/querier/stats"
	"github.com/grafana/mimir/pkg/streamingpromql"
	"github.com/grafana/mimir/pkg/util/promqlext"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql"
)

func TestRulesLoad(t *testing.T) {
	for _, path := range strings.Split(os.Getenv("RULES"), ":") {
		found, errs := rules.Parse(path, model.UTF8Validation, promqlext.NewPromQLParser(), kitlog.NewNopLogger())
		count := 0
		for _, namespace := range found {
			for _, group := range namespace.Groups {
				count += len(group.Rules)
			}
			if bad := namespace.CheckRecordingRules(false, kitlog.NewLogfmtLogger(os.Stderr)); bad > 0 {
				t.Errorf("%s: %d recording rules have names that are not of the form level:metric:operations", path, bad)
			}
		}
		if len(errs) > 0 || count == 0 {
			t.Errorf("%s: %d rules, %v", path, count, errs)
		}
		fmt.Printf("  %s: %d rules\n", filepath.Base(path), count)
	}
}

func TestAnswersAreThoseOfPrometheus(t *testing.T) {
	options := streamingpromql.NewTestEngineOpts()
	planner, err := streamingpromql.NewQueryPlanner(options, streamingpromql.NewMaximumSupportedVersionQueryPlanVersionProvider())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := streamingpromql.NewEngine(options, stats.NewQueryMetrics(nil), planner)
	if err != nil {
		t.Fatal(err)
	}
	ours := options.CommonOpts
	ours.Reg = nil
	compare(t, promql.NewEngine(ours), theirs)
}
