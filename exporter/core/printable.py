"""Text that users, drivers and other programs wrote, as people may see it: the one place that escapes it."""

from __future__ import annotations

import html
import json
from typing import Any


def printable(text: str) -> str:
    """Return one line of printable characters. Others become the escapes of a string literal.

    Unprintable are controls, line ends, and format characters such as U+202E, which reverses what follows: a terminal,
    a log or a page would act on them.
    """
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def html_text(text: str) -> str:
    """Return text for a page: printable, and no markup."""
    return html.escape(printable(text))


def printable_json(content: Any, indent: int | None = None) -> str:
    """Return JSON in which only the line ends of its own layout are unprintable. A reader gets the same values."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in text)
