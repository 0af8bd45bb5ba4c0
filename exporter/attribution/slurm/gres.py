"""Which device Slurm means by a GRES index: gres.conf in its own order, never assumed to be the driver's."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm.job import hosts
from exporter.host.text import lines, read_text

_FIELD = re.compile(r'(\w+)\s*=\s*(?:"([^"]*)"|(\S+))')
_UNCOMMENTED = re.compile(r"(?:[^\\#]|\\.|\\$)*")
_INCLUDE = re.compile(r"\s*include\s+(\S+)\s*", re.IGNORECASE)
_KIND = re.compile(r"gpu:([^:()]+:|[^:()]*[^:()0-9][^:()]*(?:\(|$))")
_MAX_INCLUDES = 64
"""Files that include each other have no end."""


def conf_text(conf: Path) -> str:
    """The file with those it includes in their places. Raises OSError where it cannot be read."""
    return "\n".join(_with_included(conf, [_MAX_INCLUDES]))


def conf_fields(conf_text: str) -> Iterator[Mapping[str, str]]:
    """Of each line, by names in small letters."""
    for line in _lines(conf_text):
        yield {key.lower(): quoted or plain for key, quoted, plain in _FIELD.findall(line)}


def gpu_kinds(conf_text: str, nodes: frozenset[str]) -> tuple[str, ...]:
    """Types of the GPUs that slurm.conf gives the node that goes by one of `nodes`, in its order and small letters."""
    default = ""
    for each in conf_fields(conf_text):
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


def _lines(conf_text: str) -> Iterator[str]:
    """As Slurm reads them: each without its comment, and then with the next one where it ends with a backslash."""
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
"""Where slurmd keeps what it was sent by slurmctld, on a node without a configuration of its own."""
UNREADABLE = (None,)
"""What GRES indices mean where there is a gres.conf that this user may not read: it may list GPUs in any order."""
_NVIDIA = re.compile(r".*/nvidia([0-9]{1,9})")
_CAP = re.compile(r".*/nvidia-cap([0-9]{1,9})")
_MINOR = re.compile(r"^Device Minor:\s*([0-9]{1,9})$", re.MULTILINE)
_MINORS = re.compile(r"gpu([0-9]{1,9})/gi([0-9]{1,9})(?:/ci([0-9]{1,9}))?/access ([0-9]{1,9})")


def in_use(gres_conf: Path) -> Path:
    """The file that slurmd goes by: asked anew each time, for slurmd may start later than its reader."""
    return CONFIGLESS if gres_conf == DEFAULT and _missing(gres_conf) else gres_conf


def _missing(file: Path) -> bool:
    try:
        file.stat()
    except PermissionError:  # it may be there, in a folder that is closed
        return False
    except OSError:
        return True
    return False


def files_of(gres_conf: Path, nodes: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Files of each GPU of the node, by index. Raises OSError where there is no gres.conf that can be read."""
    used = in_use(gres_conf)
    found = _gpus(conf_text(used), nodes)
    if len({kind for kind, _ in found}) > 1:
        with contextlib.suppress(OSError):  # then all there is to go by is gres.conf
            found = _as_numbered(found, gpu_kinds(conf_text(used.with_name("slurm.conf")), nodes))
    return tuple(files for _, files in found)


def gpu_files(text: str, nodes: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Files of each GPU of the node that goes by one of `nodes`, as listed. Empty where Slurm finds them itself."""
    return tuple(files for _, files in _gpus(text, nodes))


def _gpus(text: str, nodes: frozenset[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Type and files of each."""
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
    """Slurm numbers GPUs type by type where slurm.conf names types, in its order, and else as gres.conf lists them."""
    place = {kind: kinds.index(kind) for kind, _ in listed if kind in kinds}
    if any(kind and kind not in place for kind, _ in listed):
        return listed
    return sorted(listed, key=lambda each: place.get(each[0], len(kinds)))


def detection(text: str, nodes: frozenset[str]) -> str:
    """What slurmd finds the node's GPUs with: `nvml`, `nvidia`, or empty where it goes by the files alone.

    As slurmd reads it: of the node's own lines the first word counts, and before that of all nodes, the last. One on a
    line that begins with `Name=` is nobody's.
    """
    everywhere = ""
    for fields in conf_fields(text):
        said = fields.get("autodetect", "").lower()
        first = next(iter(fields), "")
        if said and first == "nodename" and not nodes.isdisjoint(hosts(fields["nodename"])):
            return _detector(said)
        if first == "autodetect":
            everywhere = said
    return _detector(everywhere)


def _detector(said: str) -> str:
    if "full" in said or "nvml" in said:  # the former tries NVML first
        return "nvml"
    return "nvidia" if "nvidia" in said else ""


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
    """Device by GRES index; empty without a gres.conf that names files.

    Where slurmd detects GPUs, files and types only check what it finds: its gres_gpu plugin sorts them all by links, so
    that NVML's order stays (slurmctld refuses a node with fewer than NVML has), and without NVML by their files.
    """
    try:
        text, files = conf_text(in_use(gres_conf)), files_of(gres_conf, nodes)
    except PermissionError:
        return UNREADABLE
    except OSError:
        return ()
    detector = detection(text, nodes)
    if detector == "nvml":
        return tuple(DeviceName(driver_index=index) for index in range(len(files)))
    if detector == "nvidia":
        files = tuple(sorted(files or _detected(procfs), key=_natural))
    caps = mig_minors(read_text(f"{procfs}/driver/nvidia-caps/mig-minors"))
    return tuple(device(each, caps) for each in files)


def _detected(procfs: Path) -> tuple[tuple[str, ...], ...]:
    """Files of the GPUs that the driver lists."""
    found = (_MINOR.search(read_text(str(file))) for file in (procfs / "driver/nvidia/gpus").glob("*/information"))
    return tuple((f"/dev/nvidia{match[1]}",) for match in found if match)


def _natural(files: tuple[str, ...]) -> list[str | int]:
    """nvidia2 before nvidia10."""
    return [int(part) if part.isdecimal() else part for part in re.split("([0-9]+)", ",".join(files))]


def by_index(devices: tuple[DeviceName | None, ...], index: int) -> DeviceName | None:
    """The device of a GRES index: the driver's own index without files in gres.conf, or where slurmd asks NVML."""
    if not devices or (devices[0] and devices[0].driver_index is not None):
        return DeviceName(driver_index=index)
    return devices[index] if index < len(devices) else None
