.PHONY: accounting
accounting: venv setup-rules ## A thousand jobs of 5 to 300 s: Waste, digest, Showback, months and summaries within 1 % of the truth (two minutes; JOBS=1000 SEED=1)
	$(BIN)/python -m tests.replay.accounting --jobs $(or $(JOBS),1000) --seed $(or $(SEED),1)

.PHONY: scale-month
scale-month: venv setup-rules ## What boards over a month and a year ask of a Prometheus with the recorded totals of 1,000 nodes (ten minutes)
	$(BIN)/python -m tests.scale.month

.PHONY: scale-raw
scale-raw: venv setup-rules ## What all boards over a month ask of raw series of 25 and 50 nodes (twenty minutes)
	$(BIN)/python -m tests.scale.raw

.PHONY: ninety-days
ninety-days: venv setup-rules ## Ninety days of invoices against a known truth, with every kind of gap (five CPU minutes; SEED=1)
	$(BIN)/python -m tests.replay.ninety_days $(if $(SEED),--seed $(SEED))

.PHONY: test-engines
test-engines: venv setup-rules ## A sharded fleet writes to VictoriaMetrics and Thanos, which are down for five minutes (needs Go; half an hour, the first time more)
	$(BIN)/python -m tests.engines.run

FOCUS := .cache/focus
PYTHON312 ?= $(lastword python3.12 $(wildcard $(HOME)/.pyenv/versions/3.12.*/bin/python3.12))

$(FOCUS)/.installed: .ci/make/accounting.mk
	@echo "== focus-validator in $(FOCUS) (Python 3.12, 650 MB)"
	@$(PYTHON312) -m venv $(FOCUS)
	@.ci/make/pip.sh $(FOCUS)/bin/pip install -q --disable-pip-version-check focus-validator==2.2.1
	@.ci/make/pip.sh $(FOCUS)/bin/pip install -q --disable-pip-version-check 'numpy>=2' # of the version that it asks for, its own rules do not run
	@touch $@

.PHONY: focus
focus: venv $(FOCUS)/.installed ## A month of charges through the validator of FOCUS 1.2 (Python 3.12)
	$(BIN)/python -m tests.replay.focus $(FOCUS)
