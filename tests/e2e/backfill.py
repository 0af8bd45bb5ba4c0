"""A Prometheus's past, written by promtool: series whose every value is known."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.stack import program

Point = tuple[float, float]
"""Unix seconds and value."""


class Past:
    """Series to be written. Labels of a family may differ from series to series."""

    def __init__(self) -> None:
        self._series: dict[str, list[str]] = defaultdict(list)

    def add(self, family: str, labels: Mapping[str, str], points: Iterable[Point]) -> None:
        inner = ",".join(f'{name}="{value}"' for name, value in labels.items())
        self._series[family] += [f"{family}{{{inner}}} {value!r} {time:.3f}" for time, value in points]

    def write(self, folder: Path) -> None:
        """Make blocks of it in the data directory of a Prometheus that does not run yet."""
        text = folder / "past.txt"
        lines = [
            line for family in sorted(self._series) for line in (f"# TYPE {family} unknown", *self._series[family])
        ]
        text.write_text("\n".join(lines) + "\n# EOF\n")
        blocks = folder / "prometheus"
        blocks.mkdir(exist_ok=True)
        command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text), str(blocks)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
