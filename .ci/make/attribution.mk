# A real Slurm for tests, unpacked under .cache.
.PHONY: setup-attribution
setup-attribution: ## Fetch Slurm and munge into .cache
	@.ci/make/fetch-slurm.sh

test: setup-attribution

.PHONY: setup-xauth
setup-xauth: ## Install xauth when missing: Slurm calls it by its path to forward X11
	@command -v xauth >/dev/null || { echo "xauth is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends xauth; }

SLURM_TESTS := $(wildcard tests/e2e/test_slurm_*.py) tests/e2e/test_report_slurm.py
.PHONY: e2e-slurm
e2e-slurm: venv setup-attribution setup-xauth setup-nvml setup-rules ## Attribution, kit, sites and a day of 200 jobs on a real Slurm of this Debian: 22.05 on 12, 24.11 on 13 (root, half an hour)
	TEST_DEPTH=deep $(BIN)/pytest -n0 $(SLURM_TESTS)
