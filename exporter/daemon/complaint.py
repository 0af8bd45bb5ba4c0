"""What a command has to say about its input, its output or the machine: one line on standard error."""

from __future__ import annotations

import os
import sys

from exporter.daemon.logs import to_journal


def complain(message: str) -> None:
    """Write it with the name of the program; in the journal it is an error."""
    priority = "<3>" if to_journal(sys.stderr, os.environ) else ""
    sys.stderr.write(f"{priority}gpu-exporter: {one_line(message)}\n")


def one_line(text: str) -> str:
    """With the newlines of a file's name, and what else a terminal would act on, as a string literal has them."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
