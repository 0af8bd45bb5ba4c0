"""Acknowledgements of faults: one JSON object a line, in a file that only root and the exporter's user may write."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.faults.model import Acknowledgement, FaultKind, parse_date
from exporter.faults.state_file import RECORD_ERRORS, StateError

NAME = "acknowledged.jsonl"
_MAX_BYTES = 1 << 20
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Read:
    """The acknowledgements in the file, and the number of lines that are none."""

    entries: tuple[Acknowledgement, ...] = ()
    skipped: int = 0


def read_acknowledgements(folder: Path) -> Read:
    """Return what was reported so far; nothing if there is no file. Raises StateError if others may write it."""
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            content = _last_lines(descriptor, {0, os.geteuid(), folder.stat().st_uid})
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return Read()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    if content is None:
        raise StateError(f"{path}: not a file that only root and the exporter's user may write: ignored")
    return _parse_lines(content)


def _last_lines(descriptor: int, owners: Collection[int]) -> bytes | None:
    """Return the last lines of the file; None if it is no plain file, or others than its `owners` may write it."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners or found.st_mode & 0o022:
        return None
    start = max(0, found.st_size - _MAX_BYTES)
    content = os.pread(descriptor, _MAX_BYTES, start)
    return content.partition(b"\n")[2] if start else content


def _parse_lines(content: bytes) -> Read:
    entries: list[Acknowledgement] = []
    skipped = 0
    for line in filter(bytes.strip, content.split(b"\n")):
        try:
            entries.append(_parse_acknowledgement(json.loads(line)))
        except RECORD_ERRORS:
            skipped += 1
    return Read(tuple(entries), skipped)


def _parse_acknowledgement(entry: Any) -> Acknowledgement:
    """Return the acknowledgement in a line. Raises one of RECORD_ERRORS."""
    kind = str(entry["fault"])
    if kind:
        FaultKind(kind)
    by, why = str(entry["by"])[:_LONGEST], str(entry["why"])[:_LONGEST]
    return Acknowledgement(str(entry["gpu"]), kind, by, why, parse_date(entry["time"]))
