// The rules in Thanos's parser, and in the engine that its queries run in.
package rulers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/thanos-io/promql-engine/engine"
	"github.com/thanos-io/thanos/pkg/rules"
)

func TestRulesLoad(t *testing.T) {
	for _, path := range strings.Split(os.Getenv("RULES"), ":") {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		count, errs := rules.ValidateAndCount(file)
		file.Close()
		if errs.Err() != nil || count == 0 {
			t.Errorf("%s: %d rules, %v", path, count, errs.Err())
		}
		fmt.Printf("  %s: %d rules\n", filepath.Base(path), count)
	}
}

func TestAnswersAreThoseOfPrometheus(t *testing.T) {
	options := promql.EngineOpts{
		MaxSamples:               50_000_000,
		Timeout:                  time.Minute,
		EnableAtModifier:         true,
		EnableNegativeOffset:     true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() },
	}
	compare(t, promql.NewEngine(options), engine.New(engine.Opts{EngineOpts: options}))
}
