"""Text for a terminal or a mail: layout, colors, and a message while a command takes long."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TextIO

from exporter.core.printable import printable
from exporter.tools.report.document import Bars, Block, Document, Facts, Heading, Steps, Table

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
_REPORT_AFTER_SECONDS = 2.0
_BAR, _MAX_WIDTH = 40, 100


class Colors:
    """Colours a text, or leaves it as it is, and wraps paragraphs at a width."""

    def __init__(self, colours: bool, width: int = _MAX_WIDTH) -> None:  # noqa: FBT001 - what it is
        self.colours = colours
        self._width = width

    def __call__(self, text: str, *styles: str) -> str:
        if not self.colours or not styles:
            return text
        return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text}\x1b[0m"

    def wrapped(self, first: str, text: str, indent: int) -> Sequence[str]:
        """Return the lines of a text after `first`, the later ones indented."""
        whole, later = f"{first:<{indent}}{printable(text)}", " " * indent
        return textwrap.wrap(whole, self._width, subsequent_indent=later, break_on_hyphens=False)


def paint(stream: TextIO) -> Colors:
    """Colours only on a terminal, and not where NO_COLOR is set (no-color.org) or the terminal is dumb."""
    if not stream.isatty():
        return Colors(colours=False)
    from shutil import get_terminal_size  # noqa: PLC0415 - with its archives 9 ms of a health check

    seen = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Colors(seen, min(_MAX_WIDTH, get_terminal_size().columns))


@contextmanager
def progress_message(what: str, after: float = _REPORT_AFTER_SECONDS) -> Generator[None, None, None]:
    """Say on standard error what is going on, once it has taken `after` seconds."""
    timer = threading.Timer(after, lambda: sys.stderr.write(f"{what} ...\n"))
    timer.daemon = True
    with suppress(RuntimeError):  # no more threads: it goes on without a word
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


_TONES = {"good": ("green",), "fair": ("cyan",), "bad": ("red",), "none": ("dim",)}


def render(document: Document, paint: Colors) -> str:
    lines = [paint(printable(document.title), "bold"), ""]
    for block in document.blocks:
        lines += _render_block(block, paint)
    return "\n".join(lines).rstrip() + "\n"


def _render_block(block: Block, paint: Colors) -> Iterable[str]:
    if isinstance(block, Heading):
        return ["", paint(printable(block.text), "bold")]
    if isinstance(block, Facts):
        indent = 4 + max((len(printable(name)) for name, _ in block.rows), default=0)
        return [line for name, value in block.rows for line in paint.wrapped(f"  {printable(name)}", value, indent)]
    if isinstance(block, Bars):
        return _render_bars(block, paint)
    if isinstance(block, Table):
        return table(block)
    if isinstance(block, Steps):
        return [
            line
            for number, (title, text) in enumerate(block.rows, 1)
            for line in (f"  {number}. {paint(printable(title), 'bold')}", *paint.wrapped("", text, 5))
        ]
    return paint.wrapped("", block.text, 2)


def _render_bars(bars: Bars, paint: Colors) -> Iterable[str]:
    rows = [replace(bar, name=printable(bar.name), amount=printable(bar.amount)) for bar in bars.rows]
    names = max((len(bar.name) for bar in rows), default=0)
    amounts = max((len(bar.amount) for bar in rows), default=0)
    for bar in rows:
        drawn = paint("█" * max(1, round(bar.share * _BAR)), *_TONES[bar.tone])
        yield f"  {bar.name:<{names}}  {bar.amount:>{amounts}}  {bar.share * 100:3.0f} %  {drawn}"


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
