"""Markdown, for a wiki, an issue or a chat."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from exporter.tools.report.document import Bars, Block, Document, Facts, Heading, Steps, Table, printable

_BAR = 20
_SPECIAL = re.compile(r"([\\`*_\[\]<>|&~])")


def render(document: Document) -> str:
    lines = [f"# {_text(document.title)}", ""]
    for block in document.blocks:
        lines += [*_block(block), ""]
    return "\n".join(lines).rstrip() + "\n"


def _text(text: str) -> str:
    """A name may hold anything: nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def _block(block: Block) -> Iterable[str]:
    if isinstance(block, Heading):
        return [f"## {_text(block.text)}"]
    if isinstance(block, Facts):
        return [f"- **{_text(name)}:** {_text(value)}" for name, value in block.rows]
    if isinstance(block, Bars):
        rows = [
            (bar.name, bar.amount, f"{bar.share * 100:.0f} %", "█" * max(1, round(bar.share * _BAR)))
            for bar in block.rows
        ]
        return _table(("State", ">GPU time", ">Share", ""), rows)
    if isinstance(block, Table):
        return _table(block.head, block.rows)
    if isinstance(block, Steps):
        return [f"{n}. **{_text(title)}** — {_text(text)}" for n, (title, text) in enumerate(block.rows, 1)]
    return [_text(block.text)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    yield "| " + " | ".join(_text(name.removeprefix(">")) for name in head) + " |"
    yield "|" + "|".join("---:" if name.startswith(">") else "---" for name in head) + "|"
    for row in rows:
        yield "| " + " | ".join(map(_text, row)) + " |"
