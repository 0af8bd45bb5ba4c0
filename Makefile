# Every target does its own set-up (virtual environment, packages) and says what it does.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

include $(wildcard .ci/make/*.mk)

.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-18s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml
	@echo "== Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv; $(PYTHON) -m venv $(VENV); }
	@.ci/make/pip.sh $(BIN)/pip install -q --disable-pip-version-check 'pip>=25.1'
	@.ci/make/pip.sh $(BIN)/pip install -q --disable-pip-version-check --group dev -e .
	@touch $@

RUNBOOKS := exporter/web/runbooks.json
$(RUNBOOKS): $(wildcard docs/runbooks/*.md) deploy/prometheus/pages.py | $(VENV)/.installed
	@$(BIN)/python -m deploy.prometheus.pages

.PHONY: venv
venv: $(VENV)/.installed $(RUNBOOKS) ## Make the Python environment, and the runbooks that the exporter serves

HAS_SDK := test -e $(BIN)/../lib/python3*/site-packages/grafana_foundation_sdk
LINTS := lint-pyright lint-mypy lint-dashboards lint-ruff lint-spelling # the longest first

.PHONY: lint
lint: venv ## ruff, mypy strict, pyright strict, codespell, side by side
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync $(LINTS)

.PHONY: $(LINTS)
lint-pyright:
	$(BIN)/pyright
lint-mypy:
	$(BIN)/mypy $$($(HAS_SDK) || echo --exclude ^dashboards/)
lint-dashboards:
	@$(HAS_SDK) || echo "dashboards/ is not checked: Grafana's SDK, which makes them, needs Python 3.11"
	! $(HAS_SDK) || $(BIN)/pyright --pythonversion 3.11 dashboards # the builders return typing.Self, which 3.10 does not have
lint-ruff:
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
lint-spelling:
	$(BIN)/codespell

# Tests start hundreds of Python programs: what is compiled for one is kept for all, whatever the environment asks for.
PYTEST := env --unset=PYTHONDONTWRITEBYTECODE $(BIN)/pytest --dist loadgroup

.PHONY: test
test: lint ## All tests that need no GPU and no cluster (a quarter of an hour on two cores)
	$(PYTEST) -n 4 # many wait for a program they started: twice as many as cores

.PHONY: test-fast
test-fast: venv ## The tests that start no program: of a change under way (a minute)
	$(PYTEST) -n 2 --fast tests/unit tests/contract/test_structure.py tests/contract/test_reference.py tests/contract/test_captures.py

.PHONY: test-deep
test-deep: lint ## All of `make test`, the demo, more examples of every property, every value in every place (half an hour)
	TEST_DEPTH=deep $(PYTEST) -n 4

.PHONY: mutate
mutate: venv ## Change the code in small ways and see that tests fail: ROOMS='ledger web', SIZE=60 mutants each, 0 for all (hours), SEED=7 for others
	@$(BIN)/python -c 'import mutmut' 2>/dev/null || $(BIN)/pip install -q --disable-pip-version-check mutmut==3.8.1
	$(BIN)/python -m tests.mutation.run $(ROOMS) --size $(or $(SIZE),60) $(if $(SEED),--seed $(SEED))

.PHONY: plant
plant: venv ## Plant faults, one by one, in copies of the tree: for each a test fails (ten minutes; FAULTS='ledger web' for some)
	$(BIN)/python -m tests.planted.run $(FAULTS)

.PHONY: truth
truth: venv ## The ledger over a library of work with known truth, on our kind of GPU and on three drawn at random (ten minutes; ONLY='2 ranks')
	$(BIN)/python -m tests.truth --only '$(ONLY)'

.PHONY: run
run: venv ## Serve this machine's GPUs
	$(BIN)/gpu-exporter

.PHONY: demo
demo: ## Simulated nodes, real Prometheus and Alertmanager, and one page to open (as any user)
	@PYTHON='$(PYTHON)' .ci/make/demo.sh

.PHONY: structure
structure: venv ## Print the folders of exporter/ and who imports whom
	@$(BIN)/python -m tests.structure

.PHONY: reference
reference: venv ## Write docs/metrics.md, docs/options.md and the other references from the declarations
	$(BIN)/python -m exporter.tools.reference.pages docs

.PHONY: soak
soak: venv ## 100,000 cycles with jobs and users that come and go: memory, threads, descriptors and totals (half an hour)
	$(BIN)/python -m tests.soak.soak

.PHONY: year
year: venv ## A simulated year of 100 nodes that fail and are repaired: no false drain, no missed fault (NODES, SEED)
	$(BIN)/python -m tests.year.simulate --nodes $(or $(NODES),100) $(if $(SEED),--seed $(SEED))

.PHONY: audit
audit: ## Known vulnerabilities of what the image installs (asks pypi.org)
	@$(PYTHON) -c 'import urllib.request; urllib.request.urlopen("https://pypi.org/pypi/pip/25.1/json", timeout=20)' 2>/dev/null || \
	  { echo "pypi.org cannot be reached: known vulnerabilities are not checked"; exit 0; }; \
	echo "== pip-audit in .cache/audit"; \
	test -x .cache/audit/bin/pip-audit || { $(PYTHON) -m venv .cache/audit && .cache/audit/bin/pip install -q --disable-pip-version-check pip-audit==2.10.1; }; \
	.cache/audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement deploy/container/requirements.txt

.PHONY: same-series
BASE ?= main
same-series: venv ## Whether every series is as in revision BASE, over captures and simulated cycles
	$(BIN)/python -m tests.bench.same_series $(BASE)

.PHONY: bench
bench: venv setup-nvml ## What sampling, scraping and attribution cost on this machine
	@for bench in exporter cycles growth rivals http attribution slurm_hooks slurm_latency progress_client; do echo "== $$bench"; $(BIN)/python -m tests.bench.$$bench; done
