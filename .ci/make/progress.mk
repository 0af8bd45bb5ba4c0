# The progress client in the frameworks it has callbacks for.
FRAMEWORKS := .cache/frameworks

$(FRAMEWORKS)/.installed:
	@echo "== torch, lightning, transformers, keras, jax and ray in $(FRAMEWORKS) (6 GB)"
	@$(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/pip install -q --disable-pip-version-check torch lightning transformers accelerate keras jax 'ray[train]' pytest
	@touch $@

.PHONY: frameworks
frameworks: venv setup-attribution setup-nvml $(FRAMEWORKS)/.installed ## The progress client in PyTorch (also a job of a real Slurm), Lightning, transformers, Keras, JAX and Ray (6 GB, minutes)
	$(FRAMEWORKS)/bin/python -m pytest -q -rs -p no:cacheprovider --noconftest --import-mode=importlib -c /dev/null --rootdir . tests/frameworks/callbacks.py
	$(BIN)/pytest -q -x -p no:cacheprovider tests/frameworks/install.py tests/frameworks/torch_loop.py
