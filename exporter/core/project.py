"""Places where this project lives, each named once: a fork changes this file and `make reference chart rules`."""

from __future__ import annotations

ORGANISATION = "gpu-exporter"
REPOSITORY = f"https://github.com/{ORGANISATION}/gpu-exporter"
REGISTRY = f"ghcr.io/{ORGANISATION}"
"""Of the image and of the chart."""
RUNBOOKS = f"{REPOSITORY}/blob/main/docs/runbooks/{{name}}.md"
"""URL of a runbook; `{name}` is the alert's name in lower case."""
