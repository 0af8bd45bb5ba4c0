"""The standard streams, as whoever starts this leaves them: closed, or on a disk that is full."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any

_INPUT, _OUTPUT, _ERROR = range(3)
_UNKNOWN_THERE = "replace"
"""What becomes of a character that the locale's encoding lacks: a question mark, not the end of the program."""


class _Messages(io.TextIOWrapper):
    """Standard error. A message that cannot be written reaches nobody, and changes nothing else."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def prepare() -> None:
    """Have all three open. Output that was closed fails when it is written, as on a full disk."""
    for number, mode in ((_INPUT, os.O_RDONLY), (_OUTPUT, os.O_RDONLY), (_ERROR, os.O_WRONLY)):
        _open(number, mode)
    if sys.stdout is None:
        sys.stdout = open(_OUTPUT, "w", closefd=False)  # noqa: SIM115 - for as long as the process
    if sys.stdout.errors == "strict":
        _replace_unknown(sys.stdout.encoding)
    if sys.stderr is sys.__stderr__:  # else it is read by who called this
        target = sys.stderr.buffer if sys.stderr else open(_ERROR, "wb", buffering=0, closefd=False)  # noqa: SIM115
        sys.stderr = _Messages(target, errors="backslashreplace", line_buffering=True)


def in_utf8() -> None:
    """Before output that is read as UTF-8 wherever it goes: JSON, and a page that says so."""
    _replace_unknown("utf-8")


def _replace_unknown(encoding: str) -> None:
    """On output that has an encoding; who reads it as text, within this process, takes all letters."""
    reconfigure: Any = getattr(sys.stdout, "reconfigure", None)
    if reconfigure:
        reconfigure(encoding=encoding, errors=_UNKNOWN_THERE)


def _open(number: int, mode: int) -> None:
    """Where it is closed: else the next file or connection would get the number, and what is printed would go there."""
    try:
        os.fstat(number)
    except OSError:
        os.set_inheritable(os.open(os.devnull, mode), True)  # noqa: FBT003 - as the programs that are started expect
