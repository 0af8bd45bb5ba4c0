//go:build tools

package tools

import (
	_ "github.com/helm/chart-testing/v3/ct"
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
