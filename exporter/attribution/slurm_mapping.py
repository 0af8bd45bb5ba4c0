"""Per-GPU job files that prolog and epilog keep: the format that dcgm-exporter's HPC job mapping reads.

One file per GPU, named by its index (`3`), its MIG instance (`3.1`: GPU 3, GPU instance 1) or its UUID; one job id
a line, anything after it is ignored (jobstats adds the uid). The index is the one the prolog was given, a GRES
index; UUIDs leave no doubt.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.devices import DeviceName, kubernetes_device

_INDEX = re.compile(r"([0-9]+)(?:\.([0-9]+))?")
_JOB = re.compile(r"([0-9]+)(?:[.\s].*)?")


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
    for file in sorted(folder.iterdir()):
        mapped = named(file.name)
        if mapped is None:
            continue
        try:
            text = file.read_text(errors="replace")
        except (FileNotFoundError, IsADirectoryError):  # the epilog was quicker
            continue
        for job in jobs(text):
            found[job].append(mapped)
    return {job: tuple(devices) for job, devices in found.items()}
