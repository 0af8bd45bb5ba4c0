"""Files of prolog and epilog with the GPUs of jobs: one for each job, or one for each GPU.

Files for GPUs are those of dcgm-exporter's HPC job mapping and jobstats. Their name is a GRES index (`3`), a MIG
instance (`3.1`: GPU 3, GPU instance 1) or a UUID. Each line is a job id; the rest of it is ignored (jobstats adds the
uid). Only plain files of root, of this exporter's user or of the folder's owner count.
"""

from __future__ import annotations

import errno
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.attribution.devices import DeviceName, device_of
from exporter.attribution.slurm.job import Job, JobVariables, first_host, job_variables
from exporter.core.clock import UnixTime
from exporter.host.text import bounded, lines, read_regular, read_text

_NAME = re.compile(r"job_([0-9]{1,10})")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_COMPLETE = (
    "SLURM_JOB_USER",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NAME",
    "SLURM_JOB_RESTART_COUNT",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
)
"""Variables of a prolog that gets all of them: 22.05 and 24.11 give theirs no name, and slurmctld is asked."""
_OWNER = ("SLURM_JOB_USER", "SLURM_JOB_PARTITION", "SLURMD_NODENAME")


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job's own file, as the kit's prolog writes it: `job_ID`, lines of NAME=VALUE with Slurm's names.

    It reports more than a file per GPU can: MIG instances by UUID (Slurm puts them in CUDA_VISIBLE_DEVICES), and the
    job's user, also where slurmctld hides other users' jobs (PrivateData=jobs).
    """

    variables: JobVariables
    boot: str = ""
    """Boot id of the machine when it was written."""
    complete: bool = False
    """True if slurmctld need not be asked here: the prolog reports all, or this is a later node of the job.

    The exporter on the first node asks for the rest, such as the name. Parts of GPUs are in no prolog's variables.
    """
    node: str = ""
    """Slurm's name of the node, which may differ from the host's."""


def job_of(file: str) -> str:
    """Return the job that a file of that name belongs to; empty for any other file."""
    match = _NAME.fullmatch(file)
    return match[1] if match else ""


def parse_job_file(job: str, text: str) -> JobFile | None:
    """Parse the file of `job`; None if it is not one."""
    fields = dict(line.split("=", 1) for line in lines(text) if "=" in line)
    if fields.get("SLURM_JOB_ID") != job:
        return None
    first = first_host(fields.get("SLURM_NODELIST", ""))
    later = bool(first) and all(fields.get(name) for name in _OWNER) and first != fields["SLURMD_NODENAME"]
    return JobFile(
        job_variables(fields),
        fields.get("BOOT_ID", ""),
        complete=(later or all(fields.get(name) for name in _COMPLETE)) and not fields.get("SLURM_SHARDS_ON_NODE"),
        node=bounded(fields.get("SLURMD_NODENAME", "")),
    )


def this_boot() -> str:
    """Return the running system's boot id; empty if it cannot be read."""
    return read_text(str(_BOOT)).strip()


_INDEX = re.compile(r"([0-9]{1,4})(?:\.([0-9]{1,4}))?")
_JOB = re.compile(r"([0-9]{1,10})(?:[.\s].*)?")
_MAX_FILES = 1024
_MAX_OF_OTHERS = 16384
"""Limit for a folder in which other users may write; the kit's folder is root's alone."""
_MAX_BYTES = 1 << 16
_KEPT_ENDS = 8
"""Earlier ends that stay beside the last ones: a sampling cycle reads them a moment later."""


@dataclass(frozen=True, slots=True)
class MappedDevice:
    """A file's name: a GRES index with perhaps a GPU instance, or a device known by UUID."""

    index: int | None = None
    gpu_instance: int | None = None
    device: DeviceName | None = None


def named(file: str) -> MappedDevice | None:
    """Return the device that a file of that name maps; None for any other file."""
    match = _INDEX.fullmatch(file)
    if match:
        return MappedDevice(int(match[1]), int(match[2]) if match[2] else None)
    if file.startswith(("GPU-", "MIG-")):
        found = device_of(file)
        return MappedDevice(device=found) if found else None
    return None


def jobs(text: str) -> tuple[str, ...]:
    """Return the job ids of one file; several where the GPU is shared."""
    found = (_JOB.fullmatch(line.strip()) for line in lines(text))
    return tuple(dict.fromkeys(match[1] for match in found if match))


@dataclass(frozen=True, slots=True)
class PrologFiles:
    """Contents of all files together."""

    devices: Mapping[str, tuple[MappedDevice, ...]] = field(default_factory=dict[str, tuple[MappedDevice, ...]])
    """Devices by job. Where a GPU has a file by UUID and one by index, both are reported."""
    jobs: Mapping[str, Job] = field(default_factory=dict[str, Job])
    """Jobs whose prolog reported who they are of."""
    written: Mapping[str, UnixTime] = field(default_factory=dict[str, UnixTime])
    """Time at which the prolog wrote the file of a job."""
    complete: frozenset[str] = frozenset()
    """Jobs whose prolog reported all there is to know: alone on their GPUs, by a Slurm that reports it."""
    old: frozenset[str] = frozenset()
    """Jobs whose file is older than the last boot: nothing is allocated to them."""
    nodes: frozenset[str] = frozenset()
    """Slurm's names of this node, from its prolog."""
    ended: Mapping[str, UnixTime] = field(default_factory=dict[str, UnixTime])
    """Time at which the epilog removed the files of a job, for the last jobs that ended."""


def read(folder: Path) -> PrologFiles:
    """Raises OSError."""
    found: dict[str, list[MappedDevice]] = defaultdict(list)
    noted: dict[str, JobFile] = {}
    written: dict[str, UnixTime] = {}
    owners = _trusted_users(folder)
    for name, status in sorted(_list_files(folder, owners).items()):
        try:
            content = read_regular(folder / name, _MAX_BYTES, owners)
        except OSError:  # the epilog was quicker, or it is a link
            continue
        text = (content or b"").decode(errors="replace")
        if mapped := named(name):
            for job in jobs(text):
                found[job].append(mapped)
        elif note := parse_job_file(job_of(name), text):
            noted[note.variables.job.id] = note
            written[note.variables.job.id] = UnixTime(status.st_mtime)
    boot = this_boot()
    old = frozenset(job for job, note in noted.items() if note.boot and boot and note.boot != boot)
    for job in noted.keys() - old:
        variables = noted[job].variables  # names say more than indexes, and mean the same devices
        named_devices = [MappedDevice(device=name) for name in variables.devices]
        found[job] += named_devices or [MappedDevice(index) for index in variables.gpus]
    users = Counter(device for devices in found.values() for device in set(devices))
    alone = {job for job, devices in found.items() if all(users[device] == 1 for device in devices)}
    return PrologFiles(
        {job: tuple(devices) for job, devices in found.items()},
        {job: note.variables.job for job, note in noted.items() if job not in old},
        written,
        frozenset(job for job, note in noted.items() if note.complete and job in alone and job not in old),
        old,
        frozenset(note.node for job, note in noted.items() if note.node and job not in old),
    )


def _trusted_users(folder: Path) -> frozenset[int]:
    """Return the users whose files count. Raises OSError."""
    return frozenset({0, os.geteuid(), folder.stat().st_uid})


def _list_files(folder: Path, owners: Collection[int]) -> Mapping[str, os.stat_result]:
    """Return the files of the owners with known names. Raises OSError."""
    found: dict[str, os.stat_result] = {}
    of_others = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if not named(entry.name) and not job_of(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:  # the epilog was quicker
                continue
            if status.st_uid not in owners:
                of_others += 1
                if of_others > _MAX_OF_OTHERS:
                    raise OSError(errno.E2BIG, f"more than {_MAX_OF_OTHERS} files that are not root's", str(folder))
            elif len(found) < _MAX_FILES:
                found[entry.name] = status
    return found


class MappingFolder:
    """The directory, listed several times a second, and read again only when one of its files has changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._signatures: frozenset[tuple[str, int, int, int]] | None = None
        self._files = PrologFiles()

    def read(self) -> PrologFiles:
        """Raises OSError."""
        # They change whenever a file does: epilogs put new files in place, prologs add lines.
        listed = _list_files(self._folder, _trusted_users(self._folder)).items()
        signatures = frozenset((name, at.st_ino, at.st_size, at.st_mtime_ns) for name, at in listed)
        if signatures != self._signatures:
            before, changed = self._files, self._folder.stat().st_mtime
            files = read(self._folder)
            ended = dict.fromkeys(before.devices.keys() - files.devices.keys(), UnixTime(changed))
            ended = {**dict(list(before.ended.items())[-_KEPT_ENDS:]), **ended}
            self._files = replace(files, ended={job: end for job, end in ended.items() if job not in files.devices})
            self._signatures = signatures  # as it was before: what was written meanwhile is read next time
        return self._files
