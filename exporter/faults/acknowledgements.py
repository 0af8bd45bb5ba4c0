"""What people say of faults: one JSON object a line, in a file that only root and the exporter's user may write."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from exporter.faults.model import Acknowledgement, FaultKind, date
from exporter.faults.state_file import StateError

NAME = "acknowledged.jsonl"
_LARGEST = 1 << 20
_LONGEST = 200


def read(folder: Path) -> tuple[Acknowledgement, ...]:
    """What was reported so far; nothing where there is no file. Raises StateError on one that others may write."""
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            content = _last(descriptor, {0, os.geteuid(), folder.stat().st_uid})
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    if content is None:
        raise StateError(f"{path}: not a file that only root and the exporter's user may write: ignored")
    return tuple(_parsed(content))


def _last(descriptor: int, owners: Collection[int]) -> bytes | None:
    """The end of the file; None where it is no plain file, or others than its `owners` may write it."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in owners or found.st_mode & 0o022:
        return None
    return os.pread(descriptor, _LARGEST, max(0, found.st_size - _LARGEST))


def _parsed(content: bytes) -> Iterator[Acknowledgement]:
    """Lines that are none are left out."""
    for line in content.split(b"\n"):
        try:
            entry: Any = json.loads(line)
            kind = str(entry["fault"])
            if kind in ("", *(each.value for each in FaultKind)):
                by, why = str(entry["by"])[:_LONGEST], str(entry["why"])[:_LONGEST]
                yield Acknowledgement(str(entry["gpu"]), kind, by, why, date(entry["time"]))
        except (ValueError, TypeError, KeyError):
            continue
