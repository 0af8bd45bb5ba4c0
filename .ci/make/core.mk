# What the tests of the exporter itself need beside Python.
.PHONY: setup-core
setup-core: ## Install openssl when missing: the tests make certificates with it
	@command -v openssl >/dev/null || { echo "openssl is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends openssl; }

test: setup-core

.PHONY: walk-demo
BARE ?= .cache/bare
SUITE ?=
walk-demo: venv ## A fresh clone and `make demo` on each bare system, as root and as a user (root, debootstrap, Chromium; SUITE='trixie noble')
	$(BIN)/python -m tests.walk.bare demo $(BARE) $(SUITE:%=--suite %)

.PHONY: walk-test
walk-test: venv ## A fresh clone and `make test` on each bare system (root, debootstrap, an hour; SUITE='bookworm trixie')
	$(BIN)/python -m tests.walk.bare test $(BARE) $(SUITE:%=--suite %)

.PHONY: config-schema
config-schema: venv ## Write docs/config.schema.json from the options
	$(BIN)/python -m exporter.tools.reference.schema docs/config.schema.json

reference: config-schema
