"""What a command shows a person: colours where they are seen, a word when it takes long."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TextIO

_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}
_TELL_AFTER = 2.0


class Colors:
    """Colours a text, or leaves it as it is."""

    def __init__(self, colours: bool) -> None:  # noqa: FBT001 - what it is
        self.colours = colours

    def __call__(self, text: str, *styles: str) -> str:
        if not self.colours or not styles:
            return text
        return f"\x1b[{';'.join(str(_CODES[style]) for style in styles)}m{text}\x1b[0m"


def paint(stream: TextIO) -> Colors:
    """Colours only on a terminal, and not where NO_COLOR is set (no-color.org) or the terminal is dumb."""
    seen = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Colors(seen)


@contextmanager
def progress_message(what: str, after: float = _TELL_AFTER) -> Generator[None, None, None]:
    """Say on standard error what is going on, once it has taken `after` seconds."""
    timer = threading.Timer(after, lambda: sys.stderr.write(f"{what} ...\n"))
    timer.daemon = True
    with suppress(RuntimeError):  # no more threads: it goes on without a word
        timer.start()
    try:
        yield
    finally:
        timer.cancel()
