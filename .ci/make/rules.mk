# Prometheus and Alertmanager for tests and demonstrations, unpacked under .cache.
PROMETHEUS_BIN := $(CURDIR)/.cache/prometheus/bin
export PATH := $(PROMETHEUS_BIN):$(PATH)

.PHONY: setup-rules
setup-rules: ## Fetch prometheus, promtool, alertmanager and amtool into .cache
	@.ci/make/fetch-prometheus.sh

test: setup-rules

.PHONY: replay
replay: venv setup-rules ## Replay a week of a simulated 64-GPU cluster with planted faults (ten minutes), and a job over four nodes
	$(BIN)/python -m tests.replay.replay --nodes 8 --hours 168 --rounds 3
	$(BIN)/python -m tests.replay.ranks


.PHONY: scale
scale: venv setup-rules ## What 1,000 simulated nodes ask of one Prometheus with the rules and dashboards (half an hour, 10 GiB; BEFORE=REVISION for its rules, too)
	$(BIN)/python -m tests.scale.scale --nodes $(or $(NODES),1000) --before "$(BEFORE)"

.PHONY: rules
rules: venv ## Write deploy/prometheus/rules from the declarations
	$(BIN)/python -m deploy.prometheus.generate

.PHONY: e2e-messages
e2e-messages: venv setup-rules ## What people get of 19 events: real Alertmanager and mail server (needs Go; builds for a minute the first time)
	$(BIN)/python -m tests.e2e.messages

.PHONY: rulers
rulers: venv ## The rules in Mimir's own parser (needs Go; builds for minutes the first time)
	$(BIN)/python -m tests.rulers.run

.PHONY: otel
otel: venv setup-rules ## Every series through OpenTelemetry's collector, the agents of Prometheus 2 and 3, and vmagent (needs Go; builds for twenty minutes the first time)
	$(BIN)/python -m tests.otel.run
