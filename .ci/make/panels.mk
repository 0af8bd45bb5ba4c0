# Panels as a person reads them: Grafana's own library (Apache-2.0), without Grafana, under .cache.
GRAFANA_DATA := .cache/grafana-data
GRAFANA_PACKAGES := @grafana/data@13.2.2 react@19.3.1 react-dom@19.3.1

$(GRAFANA_DATA)/.installed: .ci/make/panels.mk
	@echo "== @grafana/data in $(GRAFANA_DATA)"
	@mkdir -p $(GRAFANA_DATA)
	@npm install --silent --no-audit --no-fund --no-save --ignore-scripts --prefix $(GRAFANA_DATA) $(GRAFANA_PACKAGES)
	@touch $@

.PHONY: setup-panels
setup-panels: ## Fetch Grafana's library into .cache, where there is Node
	@if { command -v node && command -v npm; } >/dev/null; then $(MAKE) --no-print-directory $(GRAFANA_DATA)/.installed; \
	else echo "node or npm is missing: panels are tested by what Prometheus answers, not by what Grafana makes of it"; fi

test: setup-panels

.PHONY: panels
panels: venv setup-rules setup-panels ## Every panel of every dashboard on a cluster whose truth is written by hand
	$(PYTEST) -n 1 tests/panels
