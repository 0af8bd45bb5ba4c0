# What the tests of the exporter itself need beside Python.
.PHONY: setup-core
setup-core: ## Install openssl when missing: the tests make certificates with it
	@command -v openssl >/dev/null || { echo "openssl is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends openssl; }

test: setup-core
