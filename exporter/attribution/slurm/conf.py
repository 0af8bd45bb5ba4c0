"""Slurm's configuration files as its daemons read them: quotes, continued lines, comments, files that are included."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from exporter.attribution.slurm.job import hosts
from exporter.host.text import lines

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')
_UNCOMMENTED = re.compile(r"(?:[^\\#]|\\.|\\$)*")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_KIND = re.compile(r"gpu:([^:()]+:|[^:()]*[^:()0-9][^:()]*(?:\(|$))")
_MAX_INCLUDES = 64
"""Files that include each other have no end."""


def text(conf: Path) -> str:
    """The file with those it includes in their places. Raises OSError where it cannot be read."""
    return "\n".join(_with_included(conf, [_MAX_INCLUDES]))


def fields(text: str) -> Iterator[Mapping[str, str]]:
    """Of each line, by names in small letters."""
    for line in _lines(text):
        yield {key.lower(): quoted or plain for key, quoted, plain in _FIELD.findall(line)}


def kinds(text: str, nodes: frozenset[str]) -> tuple[str, ...]:
    """Types of the GPUs that slurm.conf gives the node that goes by one of `nodes`, in its order and small letters."""
    default = ""
    for each in fields(text):
        names = hosts(each.get("nodename", ""))
        given = each.get("gres", default)
        if names == ("DEFAULT",):
            default = given
        elif not nodes.isdisjoint(names):
            return tuple(kind for part in given.lower().split(",") if (kind := _kind(part)))
    return ()


def _kind(gres: str) -> str:
    """Of `gpu:h100:4` or `gpu:3090:4`; empty for `gpu:4`, and for what is no GPU."""
    match = _KIND.match(gres)
    kind = match[1].rstrip(":(") if match else ""
    return "" if kind == "no_consume" else kind


def _with_included(conf: Path, left: list[int]) -> Iterator[str]:
    """`left` is how many more files may be read."""
    for line in _lines(conf.read_bytes().decode("utf-8", "replace")):
        included = _INCLUDE.fullmatch(line)
        if not included:
            yield line
        elif left[0] > 0:
            left[0] -= 1
            with contextlib.suppress(OSError):
                yield from _with_included(conf.parent / included[1], left)


def _lines(text: str) -> Iterator[str]:
    """As Slurm reads them: each without its comment, and then with the next one where it ends with a backslash."""
    begun = ""
    for line in lines(text):
        match = _UNCOMMENTED.match(line)
        begun += match[0].rstrip() if match else ""
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    yield begun
