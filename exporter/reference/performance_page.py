"""The tables in docs/performance.md: which series each profile shows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from exporter.exposition.series_profile import ALL, DEFAULT, LEAN
from exporter.reference.check_page import renewed

BEGIN = "<!-- Made from the series profiles by `make performance-page`. Do not edit up to the end mark. -->"


def tables() -> str:
    whole = ", ".join(f"`{name}`" for name, part in LEAN.items() if part is ALL)
    return "\n".join((*_default(), "", "`lean` shows these metrics whole:", "", f"{whole};", "", *_lean()))


def _default() -> Iterator[str]:
    yield "| Metric | Series that `default` shows | The rest |"
    yield "|---|---|---|"
    for each in DEFAULT:
        names = ", ".join(f"`{name}`" for name in each.families)
        yield f"| {names} | {each.part.words} | {each.instead} |"


def _lean() -> Iterator[str]:
    yield "and of these a part:"
    yield ""
    yield "| Metric | Series that `lean` shows |"
    yield "|---|---|"
    for name, part in LEAN.items():
        if part is not ALL:
            yield f"| `{name}` | {part.words} |"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(renewed(page.read_text(), tables(), BEGIN))
