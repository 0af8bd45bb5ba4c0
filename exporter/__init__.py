"""Prometheus exporter for NVIDIA GPUs: every GPU second has an owner and a cause."""

__version__ = "0.1.0"

# Where this project lives. A fork changes it and runs `make reference rules chart`.
REPOSITORY = "https://github.com/gpu-exporter/gpu-exporter"
RUNBOOKS = f"{REPOSITORY}/blob/main/docs/runbooks/{{name}}.md"
"""URL of a runbook; `{name}` is the alert's name in lower case."""
