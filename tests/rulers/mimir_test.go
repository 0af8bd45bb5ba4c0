// The rules in mimirtool's parser.
package rulers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	kitlog "github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/grafana/mimir/pkg/mimirtool/rules"
	"github.com/grafana/mimir/pkg/util/promqlext"
	"github.com/prometheus/common/model"
)

func TestRulesLoad(t *testing.T) {
	warnings := level.NewFilter(kitlog.NewLogfmtLogger(os.Stderr), level.AllowWarn())
	for _, path := range strings.Split(os.Getenv("RULES"), ":") {
		found, errs := rules.Parse(path, model.UTF8Validation, promqlext.NewPromQLParser(), kitlog.NewNopLogger())
		count := 0
		for _, namespace := range found {
			for _, group := range namespace.Groups {
				count += len(group.Rules)
			}
			if bad := namespace.CheckRecordingRules(false, warnings); bad > 0 {
				t.Errorf("%s: %d recording rules have names that are not of the form level:metric:operations", path, bad)
			}
		}
		if len(errs) > 0 || count == 0 {
			t.Errorf("%s: %d rules, %v", path, count, errs)
		}
		fmt.Printf("  %s: %d rules\n", filepath.Base(path), count)
	}
}
