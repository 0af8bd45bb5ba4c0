"""Device of a GRES index, by gres.conf in its own order, which may differ from the driver's."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm.job import hosts
from exporter.core.site_file import read_bytes
from exporter.host.text import lines, read_text

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')
_UNCOMMENTED = re.compile(r"(?:[^\\#]|\\.|\\$)*")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_KIND = re.compile(r"gpu:([^:()]+:|[^:()]*[^:()0-9][^:()]*(?:\(|$))")
_MAX_INCLUDES = 64
"""Files that include each other have no end."""


def conf_text(conf: Path) -> str:
    """Return the file with its included files in place. Raises OSError if it cannot be read."""
    return "\n".join(_with_included(conf, [_MAX_INCLUDES]))


def conf_fields(conf_text: str) -> Iterator[Mapping[str, str]]:
    """Yield the fields of each line, by names in small letters."""
    for line in _conf_lines(conf_text):
        yield {key.lower(): quoted or plain for key, quoted, plain in _FIELD.findall(line)}


def gpu_kinds(conf_text: str, nodes: frozenset[str]) -> tuple[str, ...]:
    """Return the GPU types of the node with one of these names in slurm.conf, in its order and small letters."""
    default = ""
    for each in conf_fields(conf_text):
        names = hosts(each.get("nodename", ""))
        given = each.get("gres", default)
        if names == ("DEFAULT",):
            default = given
        elif not nodes.isdisjoint(names):
            return tuple(kind for part in given.lower().split(",") if (kind := _gpu_type(part)))
    return ()


def _gpu_type(gres: str) -> str:
    """Return the type of `gpu:h100:4` or `gpu:3090:4`; empty for `gpu:4`, and for other resources."""
    match = _KIND.match(gres)
    kind = match[1].rstrip(":(") if match else ""
    return "" if kind == "no_consume" else kind


def _with_included(conf: Path, left: list[int]) -> Iterator[str]:
    """Yield the lines of a file and of its included files, of which `left` more may be read."""
    for line in _conf_lines(read_bytes(conf).decode("utf-8", "replace")):
        included = _INCLUDE.fullmatch(line)
        if not included:
            yield line
        elif left[0] > 0:
            left[0] -= 1
            with contextlib.suppress(OSError):
                yield from _with_included(conf.parent / included[1], left)


def _conf_lines(conf_text: str) -> Iterator[str]:
    """Yield lines as Slurm reads them: without comments, and joined where one ends with a backslash."""
    begun = ""
    for line in lines(conf_text):
        match = _UNCOMMENTED.match(line)
        begun += match[0].rstrip() if match else ""
        if (len(begun) - len(begun.rstrip("\\"))) % 2:
            begun = begun[:-1]
            continue
        yield begun
        begun = ""
    yield begun


NVIDIA_MAJOR = 195
DEFAULT = Path("/etc/slurm/gres.conf")
CONFIGLESS = Path("/run/slurm/conf/gres.conf")
"""File that slurmd has from slurmctld, on a node without a configuration of its own."""
UNREADABLE = (None,)
"""Devices of a gres.conf that this user may not read: it may list GPUs in any order."""
_NVIDIA = re.compile(r".*/nvidia([0-9]{1,9})")
_CAP = re.compile(r".*/nvidia-cap([0-9]{1,9})")
_MINOR = re.compile(r"^Device Minor:\s*([0-9]{1,9})$", re.MULTILINE)
_MINORS = re.compile(r"gpu([0-9]{1,9})/gi([0-9]{1,9})(?:/ci([0-9]{1,9}))?/access ([0-9]{1,9})")


def effective_gres_conf(gres_conf: Path) -> Path:
    """Return the file that slurmd uses. Looked up each time, because slurmd may start after its reader."""
    if gres_conf != DEFAULT:
        return gres_conf
    try:
        gres_conf.stat()
    except PermissionError:  # it may exist in a closed folder
        return gres_conf
    except OSError:
        return CONFIGLESS
    return gres_conf


def files_of(gres_conf: Path, nodes: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return the files of each GPU of the node, by index. Raises OSError without a readable gres.conf."""
    used = effective_gres_conf(gres_conf)
    found = gpu_files(conf_text(used), nodes)
    if len({kind for kind, _ in found}) > 1:
        with contextlib.suppress(OSError):  # then all there is to go by is gres.conf
            found = _as_numbered(found, gpu_kinds(conf_text(used.with_name("slurm.conf")), nodes))
    return tuple(files for _, files in found)


def gpu_files(text: str, nodes: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return type and files of each GPU of the node with one of these names, as listed."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for fields in conf_fields(text):
        here = not nodes or "nodename" not in fields or not nodes.isdisjoint(hosts(fields["nodename"]))
        if not here or fields.get("name", "").lower() != "gpu":
            continue
        kind = fields.get("type", "").lower()
        if "multiplefiles" in fields:
            found.append((kind, hosts(fields["multiplefiles"])))
        else:
            found += [(kind, (file,)) for file in hosts(fields.get("file") or fields.get("files", ""))]
    return found


def _as_numbered(
    listed: list[tuple[str, tuple[str, ...]]], kinds: tuple[str, ...]
) -> list[tuple[str, tuple[str, ...]]]:
    """Return GPUs in Slurm's order: by the types in slurm.conf if it has any, else as listed."""
    place = {kind: kinds.index(kind) for kind, _ in listed if kind in kinds}
    if any(kind and kind not in place for kind, _ in listed):
        return listed
    return sorted(listed, key=lambda each: place.get(each[0], len(kinds)))


def detection(text: str, nodes: frozenset[str]) -> str:
    """Return slurmd's detection of the node's GPUs: `nvml`, `nvidia`, or empty if it uses the files alone.

    As in slurmd, the first of the node's own lines counts, else the last for all nodes. Lines of `Name=` have none.
    """
    everywhere = ""
    for fields in conf_fields(text):
        value = fields.get("autodetect", "").lower()
        first = next(iter(fields), "")
        if value and first == "nodename" and not nodes.isdisjoint(hosts(fields["nodename"])):
            everywhere = value
            break
        if first == "autodetect":
            everywhere = value
    if "full" in everywhere or "nvml" in everywhere:  # the former tries NVML first
        return "nvml"
    return "nvidia" if "nvidia" in everywhere else ""


def mig_minors(text: str) -> Mapping[int, DeviceName]:
    """Parse /proc/driver/nvidia-caps/mig-minors: the MIG instance of each capability node."""
    return {
        int(match[4]): DeviceName(
            minor=int(match[1]),
            gpu_instance=int(match[2]),
            compute_instance=int(match[3]) if match[3] else None,
        )
        for match in _MINORS.finditer(text)
    }


def character_minor(file: str) -> int | None:
    """Return the minor of an NVIDIA device node of any name; None for any other file."""
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
    """Return the device of one index's files: the most exact of them, an instance before its GPU."""
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
    """Return devices by GRES index; empty without a gres.conf that names files.

    If slurmd detects GPUs, files and types only check its result: NVML's order stays (slurmctld refuses a node with
    fewer than NVML has), and without NVML they are sorted by their files.
    """
    try:
        text, files = conf_text(effective_gres_conf(gres_conf)), files_of(gres_conf, nodes)
    except PermissionError:
        return UNREADABLE
    except OSError:
        return ()
    detector = detection(text, nodes)
    if detector == "nvml":
        return tuple(DeviceName(driver_index=index) for index in range(len(files)))
    if detector == "nvidia":
        infos = (read_text(str(file)) for file in (procfs / "driver/nvidia/gpus").glob("*/information"))
        listed = tuple((f"/dev/nvidia{match[1]}",) for info in infos if (match := _MINOR.search(info)))
        files = tuple(sorted(files or listed, key=_natural_order))
    caps = mig_minors(read_text(f"{procfs}/driver/nvidia-caps/mig-minors"))
    return tuple(device(each, caps) for each in files)


def _natural_order(files: tuple[str, ...]) -> list[str | int]:
    """Return a key that sorts nvidia2 before nvidia10."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", ",".join(files))]


def by_index(devices: tuple[DeviceName | None, ...], index: int) -> DeviceName | None:
    """Return the device of a GRES index: the driver's index without files in gres.conf, or if slurmd asks NVML."""
    if not devices or (devices[0] and devices[0].driver_index is not None):
        return DeviceName(driver_index=index)
    return devices[index] if index < len(devices) else None
