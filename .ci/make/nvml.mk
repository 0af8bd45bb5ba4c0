# The oldest binding the package allows, beside the newest in the environment.
OLD_BINDING := nvidia-ml-py==12.535.77

test: setup-nvml

.PHONY: setup-nvml
setup-nvml: venv ## Build the fake NVIDIA driver library of the tests (installs gcc when missing)
	@command -v gcc >/dev/null && echo '#include <math.h>' | gcc -E - >/dev/null 2>&1 || { echo "gcc is missing: installing it"; apt-get update -q && apt-get install -y -q --no-install-recommends gcc libc6-dev; }
	@$(BIN)/python -m tests.fake_nvml.build
	@[ -e .cache/old-binding/pynvml.py ] || $(BIN)/pip install -q --disable-pip-version-check --no-deps --target .cache/old-binding $(OLD_BINDING)

.PHONY: faults
faults: venv setup-nvml ## Plant every fault a driver can have, one by one, and print what each did (half an hour)
	$(BIN)/python -m tests.faults.matrix $(FAULTS)
