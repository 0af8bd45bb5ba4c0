"""A process's arguments as one line that may be shown: secrets masked, length bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from exporter.core.printable import printable
from exporter.host.text import read_bytes

MASK = "***"
_MAX_CHARACTERS = 200
_MAX_BYTES = 1 << 14
"""Limit of the arguments: more is never shown."""
_WORDS = (
    r"passw|passphrase|pass(?![a-z])|pwd|secret|token|credential|auth|cookie|signature|sig(?![a-z])|"
    r"key(?![a-z])|keyid|apikey"
)
_SECRET = re.compile(_WORDS, re.IGNORECASE)
_NAME = r"[\w.$-]{1,64}"
_PAIR = re.compile(rf"(?P<name>{_NAME}=)[^&;,\s]+")
"""`name=value` anywhere: queries, connection strings, variables inside `sh -c`."""
_JSON = re.compile(
    r"""(?P<name>["'][^"'\s]{1,64}["']\s{0,4}:\s{0,4})(?:"(?:[^"\\]|\\.)*(?:"|$)|'[^']*(?:'|$)|[^,}\s]+)"""
)
_HEADER = re.compile(rf"(?P<name>{_NAME}):")
_BEARER = re.compile(r"(?P<name>\bbearer\s{1,4})\S+", re.IGNORECASE)
_QUERY = re.compile(r"(?P<name>://[^\s?]{1,512}\?)\S+")
_USER_INFO = re.compile(r"://[^/?#\s]*@")
"""Text before the `@` of a URL's host: a password, or a token in place of a name."""
_KNOWN = re.compile(r"\b(?:hf_|sk-|ghp_|github_pat_|glpat-|AKIA|ASIA|xox[abp]-|eyJ)[A-Za-z0-9_.-]{8,}")
"""Beginnings that well-known services give their keys."""
_LOGIN_OPTIONS = ("-u", "--user", "--proxy-user")
"""curl and its like take `name:password` after these."""


def masked_command_line(pid: int, procfs: Path) -> str:
    """The arguments of a process, masked; empty once it has gone, and for a kernel thread."""
    raw = read_bytes(f"{procfs}/{pid}/cmdline", _MAX_BYTES)
    return shown([part.decode(errors="replace") for part in raw.split(b"\0") if part])


def shown(arguments: Sequence[str]) -> str:
    """Arguments as one line of at most 200 characters, with the values of secret-sounding names masked."""
    line = printable(" ".join(_mask_arguments(arguments)))
    return line if len(line) <= _MAX_CHARACTERS else line[: _MAX_CHARACTERS - 1] + "…"


def _mask_arguments(arguments: Sequence[str]) -> Iterator[str]:
    before, length = "", 0
    for argument in arguments:
        if length > _MAX_CHARACTERS:
            return
        masked = _mask_after(before, argument) or _mask_argument(argument[:_MAX_BYTES])
        length += len(masked) + 1
        before = argument
        yield masked


def _mask_after(before: str, argument: str) -> str:
    """The mask where the option before makes this argument a secret; else empty."""
    if before in _LOGIN_OPTIONS and ":" in argument:
        return MASK
    option = before.startswith("-") and "=" not in before and not argument.startswith("-")
    return MASK if option and _SECRET.search(before[:_MAX_CHARACTERS]) else ""


def _mask_argument(argument: str) -> str:
    name, equals, _ = argument.partition("=")
    if equals and len(name) <= _MAX_CHARACTERS and not re.search(r"[\s/?&{]", name) and _SECRET.search(name):
        return f"{name}={MASK}"
    masked = _QUERY.sub(rf"\g<name>{MASK}", _USER_INFO.sub(f"://{MASK}@", argument))
    for pattern in (_JSON, _PAIR):
        masked = pattern.sub(lambda found: found["name"] + MASK if _SECRET.search(found["name"]) else found[0], masked)
    masked = _BEARER.sub(rf"\g<name>{MASK}", masked)
    header = next((found for found in _HEADER.finditer(masked) if _SECRET.search(found["name"])), None)
    return _KNOWN.sub(MASK, f"{masked[: header.end()]} {MASK}" if header else masked)
