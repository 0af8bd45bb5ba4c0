# What takes minutes and tries to break the exporter; `make faults` and `make soak` stand beside what they need.
ATHERIS := atheris==3.0.0

.PHONY: fuzz
fuzz: venv ## Random input for every parser, one to three minutes each (atheris where there is a wheel of it, else plain chance)
	@[ -d .cache/fuzz/atheris ] || $(BIN)/pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --target .cache/fuzz $(ATHERIS) || echo "no wheel of $(ATHERIS) for this Python: by plain chance"
	PYTHONPATH=.cache/fuzz $(BIN)/python -m tests.fuzz.fuzz $(FUZZ)

.PHONY: hardship
hardship: venv setup-nvml ## As nobody, with hidepid=2, 20 descriptors, 64 MiB, a full disk: what still holds (root)
	$(BIN)/python -m tests.hardship.hardship

TOOLKIT := github.com/prometheus/exporter-toolkit@v0.17.1
ATTACKS := $(addprefix tests/unit/,web progress faults/test_odd_acknowledgements.py faults/test_damaged_state.py \
	$(addprefix attribution/test_,cgroup_trust.py forged_lines.py kubelet_disagreement.py pod_root.py show_job.py) \
	host/test_nccl_ras.py host/test_printable.py sampling/test_nccl_status.py slurm_kit/test_job_files.py \
	check/test_render.py report/test_fetch.py) tests/contract/web

.PHONY: attacks
attacks: venv ## What hostile networks and local users try, with many examples, and the sample files of exporter-toolkit (Go)
	TEST_DEPTH=deep $(PYTEST) -n 2 $(ATTACKS)
	@command -v go >/dev/null || { echo "no go: the sample files of $(TOOLKIT) are not read"; exit 0; }; \
	folder=$$(go mod download -json $(TOOLKIT) | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$$/\1/p'); \
	$(BIN)/python -m tests.hardship.toolkit "$$folder/web/testdata"
