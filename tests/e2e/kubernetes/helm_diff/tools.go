//go:build tools

package tools

import _ "github.com/databus23/helm-diff/v3"
