"""Per-GPU job files that prolog and epilog keep: the format that dcgm-exporter's HPC job mapping reads.

One file per GPU, named by its index (`3`), its MIG instance (`3.1`: GPU 3, GPU instance 1) or its UUID; one job id
a line, anything after it is ignored (jobstats adds the uid). The index is the one the prolog was given, a GRES
index; UUIDs leave no doubt. Only plain files of root, of this exporter's user or of the folder's owner count: what
anybody else can put there must not name jobs, nor keep the reader waiting.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.devices import DeviceName, kubernetes_device
from exporter.host.text import read_regular

_INDEX = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_JOB = re.compile(r"([0-9]{1,10})(?:[.\s].*)?")
_MOST_FILES = 1024
_MOST_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """A file's name: a GRES index with perhaps a GPU instance, or a device known by UUID."""

    index: int | None = None
    gpu_instance: int | None = None
    device: DeviceName | None = None


def named(file: str) -> MappedDevice | None:
    """What a file of that name maps; None for any other file."""
    match = _INDEX.fullmatch(file)
    if match:
        return MappedDevice(int(match[1]), int(match[2]) if match[2] else None)
    if file.startswith(("GPU-", "MIG-")):
        found = kubernetes_device(file)
        return MappedDevice(device=found) if found else None
    return None


def jobs(text: str) -> tuple[str, ...]:
    """Job ids of one file; several where the GPU is shared."""
    found = (_JOB.fullmatch(line.strip()) for line in text.splitlines())
    return tuple(dict.fromkeys(match[1] for match in found if match))


def read(folder: Path) -> Mapping[str, tuple[MappedDevice, ...]]:
    """Devices by job. Where a GPU has a file by UUID and one by index, both are told. Raises OSError."""
    found: dict[str, list[MappedDevice]] = defaultdict(list)
    trusted = {0, os.geteuid(), folder.stat().st_uid}
    for name, mapped in sorted(_listed(folder).items()):
        try:
            content = read_regular(folder / name, _MOST_BYTES, trusted)
        except OSError:  # the epilog was quicker, or it is a link
            continue
        for job in jobs((content or b"").decode(errors="replace")):
            found[job].append(mapped)
    return {job: tuple(devices) for job, devices in found.items()}


def _listed(folder: Path) -> Mapping[str, MappedDevice]:
    """Names in the folder that map a device; others are passed over, however many. Raises OSError."""
    found: dict[str, MappedDevice] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            mapped = named(entry.name)
            if mapped is not None and len(found) < _MOST_FILES:
                found[entry.name] = mapped
    return found


class MappingFolder:
    """The directory, read anew only when one of its files has changed: it is looked at several times a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._marks: frozenset[tuple[str, int, int, int]] | None = None
        self._jobs: Mapping[str, tuple[MappedDevice, ...]] = {}

    def read(self) -> Mapping[str, tuple[MappedDevice, ...]]:
        """Devices by job. Raises OSError."""
        marks = _marks(self._folder)
        if marks != self._marks:
            self._jobs = read(self._folder)
            self._marks = marks  # as it was before: what was written meanwhile is read next time
        return self._jobs


def _marks(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """Changes whenever a file does: epilogs put new files in place, prologs add lines. Raises OSError."""
    found: set[tuple[str, int, int, int]] = set()
    for name in _listed(folder):
        try:
            status = (folder / name).lstat()
        except OSError:  # the epilog was quicker
            continue
        found.add((name, status.st_ino, status.st_size, status.st_mtime_ns))
    return frozenset(found)
