# What takes minutes and tries to break the exporter; `make faults` and `make soak` stand beside what they need.
ATHERIS := atheris==3.0.0

.PHONY: fuzz
fuzz: venv ## Random input for every parser, one to three minutes each (atheris where there is a wheel of it, else plain chance)
	@[ -d .cache/fuzz/atheris ] || $(BIN)/pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --target .cache/fuzz $(ATHERIS) || echo "no wheel of $(ATHERIS) for this Python: by plain chance"
	PYTHONPATH=.cache/fuzz $(BIN)/python -m tests.fuzz.fuzz $(FUZZ)

.PHONY: hardship
hardship: venv setup-nvml ## As nobody, with hidepid=2, 20 descriptors, 64 MiB, a full disk: what still holds (root)
	$(BIN)/python -m tests.hardship.hardship
