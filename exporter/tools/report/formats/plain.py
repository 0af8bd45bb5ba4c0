"""Text for a terminal or a mail."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from exporter.tools.report.document import Bars, Block, Document, Facts, Heading, Steps, Table, printable
from exporter.tools.report.terminal import Colors

_BAR, _WIDTH = 40, 100
_TONES = {"good": ("green",), "fair": ("cyan",), "bad": ("red",), "none": ("dim",)}


def render(document: Document, paint: Colors) -> str:
    lines = [paint(printable(document.title), "bold"), ""]
    for block in document.blocks:
        lines += _block(block, paint)
    return "\n".join(lines).rstrip() + "\n"


def _block(block: Block, paint: Colors) -> Iterable[str]:
    if isinstance(block, Heading):
        return ["", paint(printable(block.text), "bold")]
    if isinstance(block, Facts):
        facts = [(printable(name), printable(value)) for name, value in block.rows]
        width = max((len(name) for name, _ in facts), default=0)
        return [f"  {name:<{width}}  {value}" for name, value in facts]
    if isinstance(block, Bars):
        return _bars(block, paint)
    if isinstance(block, Table):
        return table(block)
    if isinstance(block, Steps):
        return _steps(block, paint)
    return textwrap.wrap(printable(block.text), _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _bars(bars: Bars, paint: Colors) -> Iterable[str]:
    rows = [replace(bar, name=printable(bar.name), amount=printable(bar.amount)) for bar in bars.rows]
    names = max((len(bar.name) for bar in rows), default=0)
    amounts = max((len(bar.amount) for bar in rows), default=0)
    for bar in rows:
        drawn = paint("█" * max(1, round(bar.share * _BAR)), *_TONES[bar.tone])
        yield f"  {bar.name:<{names}}  {bar.amount:>{amounts}}  {bar.share * 100:3.0f} %  {drawn}"


def _steps(steps: Steps, paint: Colors) -> Iterable[str]:
    for number, (title, text) in enumerate(steps.rows, 1):
        yield f"  {number}. {paint(printable(title), 'bold')}"
        yield from textwrap.wrap(printable(text), _WIDTH, initial_indent="     ", subsequent_indent="     ")


def table(table_: Table) -> Iterable[str]:
    """Columns as wide as what is in them."""
    head = [printable(name.removeprefix(">")) for name in table_.head]
    rows = [[printable(cell) for cell in row] for row in table_.rows]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            f"{cell:>{width}}" if name.startswith(">") else f"{cell:<{width}}"
            for cell, width, name in zip(cells, widths, table_.head, strict=True)
        )
        return ("  " + "  ".join(aligned)).rstrip()

    return [line(head), *(line(row) for row in rows)]
