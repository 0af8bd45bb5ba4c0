# A real Slurm for tests, unpacked under .cache.
.PHONY: setup-attribution
setup-attribution: ## Fetch Slurm and munge into .cache
	@.ci/make/fetch-slurm.sh

test: setup-attribution
