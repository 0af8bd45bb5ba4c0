//go:build tools

package tools

import _ "github.com/prometheus-operator/prometheus-operator/cmd/operator"
