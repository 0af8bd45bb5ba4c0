"""`python -m dashboards` writes json/ anew."""

from __future__ import annotations

from pathlib import Path

from dashboards.catalogue import DASHBOARDS
from dashboards.parts.frame import to_json

FOLDER = Path(__file__).parent / "json"


def main() -> None:
    for name, make in DASHBOARDS.items():
        (FOLDER / f"{name}.json").write_text(to_json(make()), encoding="utf-8")


if __name__ == "__main__":
    main()
