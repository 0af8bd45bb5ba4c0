"""A process's arguments as one line that may be shown: secrets masked, length bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

MASK = "***"
_MOST = 200
_SECRET = re.compile(
    r"(?i)passw|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key|auth|cookie|signature"
)
_USERINFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/@\s]+@", re.IGNORECASE)
_KNOWN = re.compile(r"\b(?:hf_|sk-|ghp_|glpat-|AKIA|xox[abp]-|eyJ)[A-Za-z0-9_.-]{8,}")
"""Beginnings that well-known services give their keys."""


def command_line(pid: int, procfs: Path) -> str:
    """The arguments of a process, masked; empty once it has gone, and for a kernel thread."""
    try:
        raw = (procfs / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ""
    return shown([part.decode(errors="replace") for part in raw.split(b"\0") if part])


def shown(arguments: Sequence[str]) -> str:
    """Arguments as one line of at most 200 characters, with the values of secret-sounding names masked."""
    line = " ".join(_masked(arguments))
    printable = "".join(char if char.isprintable() else " " for char in line)
    return printable if len(printable) <= _MOST else printable[: _MOST - 1] + "…"


def _masked(arguments: Sequence[str]) -> Iterator[str]:
    next_is_secret = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if next_is_secret and not argument.startswith("-"):
            yield MASK
            next_is_secret = False
        elif equals and _SECRET.search(name):
            yield f"{name}={MASK}"
            next_is_secret = False
        else:
            next_is_secret = argument.startswith("-") and not equals and bool(_SECRET.search(argument))
            yield _KNOWN.sub(MASK, _USERINFO.sub(rf"\g<scheme>{MASK}@", argument))
