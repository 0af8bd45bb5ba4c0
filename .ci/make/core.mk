# What the tests of the exporter itself need beside Python.
.PHONY: setup-core
setup-core: ## Install openssl when missing: the tests make certificates with it
	@command -v openssl >/dev/null || { echo "openssl is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends openssl; }

test: setup-core

.PHONY: walk-demo
BARE ?= .cache/bare
SUITE ?= bookworm
walk-demo: venv ## A fresh clone and `make demo` on a bare Debian, as root and as a user (root, debootstrap, Chromium)
	$(BIN)/python -m tests.walk.bare $(BARE)/$(SUITE) --suite $(SUITE)

.PHONY: config-schema
config-schema: venv ## Write docs/config.schema.json from the options
	$(BIN)/python -m exporter.reference.schema docs/config.schema.json

reference: config-schema
