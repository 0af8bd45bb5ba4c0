"""Shell blocks of the user pages, and what `pages.yaml` says of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("pages.yaml")


@dataclass(frozen=True, slots=True)
class Block:
    """One row of the list: the first words of a block, and where it is run or why it is not."""

    starts: str
    runs: str = ""
    not_run: str = ""
    sees: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the list. `setup` may use the network; `before` is of the shell that runs the blocks."""

    blocks: Sequence[Block]
    setup: str = ""
    before: str = ""
    demo: bool = False
    names: Mapping[str, str] = field(default_factory=dict[str, str])


def listed() -> Mapping[str, Page]:
    """Return the pages of the list by their path."""
    content: Mapping[str, Any] = yaml.safe_load(LIST.read_text())
    return {path: _page(row) for path, row in content.items()}


def _page(row: Mapping[str, Any]) -> Page:
    blocks = [
        Block(**{"not_run" if key == "not" else key: text for key, text in each.items()}) for each in row["blocks"]
    ]
    return Page(blocks, row.get("setup", ""), row.get("before", ""), row.get("demo", False), row.get("with", {}))


def written(path: str) -> Sequence[str]:
    """Return the shell blocks of a page."""
    return re.findall(r"^```sh\n(.*?)^```$", (ROOT / path).read_text(), re.DOTALL | re.MULTILINE)


def user_pages() -> Iterator[str]:
    """Yield the pages that may have shell blocks for users: not those of contributors, nor the runbooks."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(("docs/dev/", "docs/runbooks/")):
            yield name
