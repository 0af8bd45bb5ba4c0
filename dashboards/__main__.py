"""`python -m dashboards` writes json/ anew, and the chart's copies of it."""

from __future__ import annotations

from pathlib import Path

from dashboards.catalogue import DASHBOARDS
from dashboards.parts.frame import to_json

FOLDERS = (Path(__file__).parent / "json", Path(__file__).parents[1] / "helm/gpu-exporter/files/dashboards")


def main() -> None:
    for name, make in DASHBOARDS.items():
        text = to_json(make())
        for folder in FOLDERS:
            (folder / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
