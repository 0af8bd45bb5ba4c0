# Prometheus and Alertmanager for tests and demonstrations, unpacked under .cache.
PROMETHEUS_BIN := $(CURDIR)/.cache/prometheus/bin
export PATH := $(PROMETHEUS_BIN):$(PATH)

.PHONY: setup-rules
setup-rules: ## Fetch prometheus, promtool, alertmanager and amtool into .cache
	@make/fetch-prometheus.sh

test: setup-rules
