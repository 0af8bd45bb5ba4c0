"""`make structure`: the folders of `exporter/` and who imports whom."""

from __future__ import annotations

import ast
import functools
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "exporter"

ORDER = (
    "threads", "metrics", "driver", "host", "collectors", "attribution", "exposition", "progress", "ledger", "node",
    "simulator", "capture", "config", "faults", "sampling", "report", "check", "summaries", "web", "cli", "reference",
)  # fmt: skip
"""From what imports nothing to what imports all."""

LONGEST = 300
"""Lines of a file."""

Arrow = tuple[str, str]


def rooms() -> list[str]:
    return [path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))]


def loose() -> list[str]:
    """Modules that are in no folder."""
    return sorted(path.name for path in ROOT.glob("*.py"))


def lengths() -> Mapping[Path, int]:
    """The lines of every Python file of the project."""
    top = ROOT.parent
    files = (
        path for room in ("exporter", "tests", "deploy", "helm", "dashboards") for path in (top / room).rglob("*.py")
    )
    return {path.relative_to(top): len(path.read_text().splitlines()) for path in files}


@functools.cache
def arrows() -> Mapping[Arrow, int]:
    """How many imports lead from one folder to another."""
    found: Counter[Arrow] = Counter()
    for room in rooms():
        for path in (ROOT / room).rglob("*.py"):
            found.update((room, target) for target in _imported(path) if target != room)
    return found


def upward(found: Iterable[Arrow]) -> list[Arrow]:
    """Arrows to a folder that comes later in the order."""
    return sorted((start, end) for start, end in found if ORDER.index(end) > ORDER.index(start))


def _imported(path: Path) -> Iterator[str]:
    """The folders that a module imports from; modules that are in none are left out."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("exporter."):
            room = node.module.split(".")[1]
            if (ROOT / room).is_dir():
                yield room


def table() -> Iterator[str]:
    found = arrows()
    for room in ORDER:
        files = list((ROOT / room).rglob("*.py"))
        lines = sum(len(file.read_text().splitlines()) for file in files)
        targets = ", ".join(sorted(end for start, end in found if start == room)) or "nothing"
        yield f"{room:12} {len(files):3} files, {lines:5} lines, imports {targets}"
    yield f"{len(ORDER)} folders, {len(found)} arrows, {len(upward(found))} upward, {len(loose())} loose modules"
    longest = max(lengths().items(), key=lambda each: each[1])
    yield f"{len(lengths())} files, the longest {longest[0]} with {longest[1]} lines"


if __name__ == "__main__":
    sys.stdout.write("\n".join(table()) + "\n")
