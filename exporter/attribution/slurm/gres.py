"""Which device Slurm means by a GRES index: gres.conf in its own order, never assumed to be the driver's."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import conf
from exporter.attribution.slurm.job import hosts
from exporter.host.presence import exists

NVIDIA_MAJOR = 195
DEFAULT = Path("/etc/slurm/gres.conf")
CONFIGLESS = Path("/run/slurm/conf/gres.conf")
"""Where slurmd keeps what it was sent by slurmctld, on a node without a configuration of its own."""
_NVIDIA = re.compile(r".*/nvidia([0-9]{1,9})")
_CAP = re.compile(r".*/nvidia-cap([0-9]{1,9})")
_MINORS = re.compile(r"gpu([0-9]{1,9})/gi([0-9]{1,9})(?:/ci([0-9]{1,9}))?/access ([0-9]{1,9})")


def in_use(gres_conf: Path) -> Path:
    """The file that slurmd goes by: asked anew each time, for slurmd may start later than its reader."""
    return CONFIGLESS if gres_conf == DEFAULT and not exists(gres_conf) else gres_conf


def files_of(gres_conf: Path, nodes: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Files of each GPU of the node, by index. Raises OSError where there is no gres.conf that can be read."""
    used = in_use(gres_conf)
    found = _gpus(conf.text(used), nodes)
    if len({kind for kind, _ in found}) > 1:
        with contextlib.suppress(OSError):  # then all there is to go by is gres.conf
            found = _as_numbered(found, conf.kinds(conf.text(used.with_name("slurm.conf")), nodes))
    return tuple(files for _, files in found)


def gpu_files(text: str, nodes: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Files of each GPU of the node that goes by one of `nodes`, as listed. Empty where Slurm finds them itself."""
    return tuple(files for _, files in _gpus(text, nodes))


def _gpus(text: str, nodes: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Type and files of each."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for fields in conf.fields(text):
        here = not nodes or "nodename" not in fields or not nodes.isdisjoint(hosts(fields["nodename"]))
        if not here or fields.get("name", "").lower() != "gpu":
            continue
        kind = fields.get("type", "").lower()
        if "multiplefiles" in fields:
            found.append((kind, hosts(fields["multiplefiles"])))
        else:
            found += [(kind, (file,)) for file in hosts(fields.get("file", ""))]
    return found


def _as_numbered(
    listed: list[tuple[str, tuple[str, ...]]], kinds: tuple[str, ...]
) -> list[tuple[str, tuple[str, ...]]]:
    """Slurm numbers GPUs type by type where slurm.conf names types, in its order, and else as gres.conf lists them."""
    place = {kind: kinds.index(kind) for kind, _ in listed if kind in kinds}
    if any(kind and kind not in place for kind, _ in listed):
        return listed
    return sorted(listed, key=lambda each: place.get(each[0], len(kinds)))


def mig_minors(text: str) -> Mapping[int, DeviceName]:
    """/proc/driver/nvidia-caps/mig-minors: which MIG instance a capability node opens."""
    return {
        int(match[4]): DeviceName(
            minor=int(match[1]),
            gpu_instance=int(match[2]),
            compute_instance=int(match[3]) if match[3] else None,
        )
        for match in _MINORS.finditer(text)
    }


def character_minor(file: str) -> int | None:
    """N of an NVIDIA device node of any name; None where it is none or not here."""
    try:
        status = Path(file).stat()
    except OSError:
        return None
    if not stat.S_ISCHR(status.st_mode) or os.major(status.st_rdev) != NVIDIA_MAJOR:
        return None
    return os.minor(status.st_rdev)


def device(
    files: tuple[str, ...], caps: Mapping[int, DeviceName], minor_of: Callable[[str], int | None] = character_minor
) -> DeviceName | None:
    """The device that one index's files are of: the most exact of them, an instance before its GPU."""
    instances = [caps[int(match[1])] for file in files if (match := _CAP.fullmatch(file)) and int(match[1]) in caps]
    if instances:
        return max(instances, key=lambda name: name.compute_instance is not None)
    for file in files:
        match = _NVIDIA.fullmatch(file)
        minor = int(match[1]) if match else minor_of(file)
        if minor is not None:
            return DeviceName(minor=minor)
    return None


def read(gres_conf: Path, procfs: Path, nodes: frozenset[str]) -> tuple[DeviceName | None, ...]:
    """Device by GRES index; empty without a readable gres.conf that names files."""
    try:
        files = files_of(gres_conf, nodes)
    except OSError:
        return ()
    try:
        caps = mig_minors((procfs / "driver/nvidia-caps/mig-minors").read_text())
    except OSError:
        caps = mig_minors("")
    return tuple(device(each, caps) for each in files)


def by_index(devices: tuple[DeviceName | None, ...], index: int) -> DeviceName | None:
    """The device of a GRES index.

    Without files in gres.conf slurmd detects the GPUs itself and keeps NVML's own order (its gres_gpu plugin
    sorts by links so that it does), so there, and only there, the index is the driver's.
    """
    if not devices:
        return DeviceName(driver_index=index)
    return devices[index] if index < len(devices) else None
