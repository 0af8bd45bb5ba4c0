# Measurements that need an NVIDIA GPU and torch: no part of `make test`.
GPU_PYTHON ?= $(BIN)/python
GPU_RESULTS ?= .cache/hardware

.PHONY: test-gpu
test-gpu: venv ## Measure against a real NVIDIA GPU and its driver, with torch (about 25 minutes)
	$(GPU_PYTHON) -m tests.hardware.run $(GPU_RESULTS) $(GPU_OPTIONS)
	@echo "== $(GPU_RESULTS)/report.md"
