"""Slurm on this node at one moment, from local files: cgroups, device programs, environments, gres.conf."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

from exporter.attribution.cgroup import parse_path
from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm import device_program, gres
from exporter.attribution.slurm.job import JobVariables, merged, read_environ
from exporter.host.cgroup import folders, mounts
from exporter.host.text import is_folder, read_text

log = logging.getLogger(__name__)

Allocation = Mapping[DeviceName, float | None]
"""Devices of a job, each with its amount (shards, MPS percent) if one is stated."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Slurm on this node at one moment."""

    present: bool = False
    """True if Slurm may be here, such as with a configured folder of the prolog's files."""
    evident: bool = False
    """True if Slurm must be here, or has shown by a job or by GPUs in gres.conf since the start."""
    cgroups: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job to its cgroup."""
    sluids: Mapping[str, str] = field(default_factory=dict[str, str])
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job to its user, if its cgroup reports it (version 1)."""
    finished_jobs: frozenset[str] = frozenset()
    """Jobs that an epilog has removed from the files, and whose empty cgroup is left."""
    silent: frozenset[str] = frozenset()
    """Jobs with an allocation here that have only Slurm's own processes in their cgroup."""
    constrained: Mapping[str, Allocation] = field(default_factory=dict[str, Allocation])
    job_environ: Mapping[str, JobVariables] = field(default_factory=dict[str, JobVariables])
    program_error: str = ""
    devices: tuple[DeviceName | None, ...] = ()
    """Devices by GRES index."""


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """Paths and names of Slurm. Without `mapping` no prolog files are read, without `scontrol` no slurmctld."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    gres_conf: Path = Path("/etc/slurm/gres.conf")
    mapping: Path | None = None
    scontrol: str = "scontrol"
    names: frozenset[str] = frozenset()
    """Possible names of this node in Slurm."""
    required: bool = False
    """True if Slurm must be here."""


class DevicePrograms:
    """Devices that slurmd's device programs allow each job. Each is read once: an allocation does not change."""

    def __init__(self, site: SlurmSite, bpf: device_program.Bpf) -> None:
        self._site = site
        self._bpf: device_program.Bpf | None = bpf
        self._known: dict[str, Allocation] = {}
        self.error = ""
        """Reason of a failure, if this process has the right to read them."""

    def read(self, cgroups: Mapping[str, str]) -> Mapping[str, Allocation]:
        self._known = {job: allocated for job, allocated in self._known.items() if job in cgroups}
        for job, path in cgroups.items():
            if self._bpf is None or job in self._known:
                continue
            try:
                allocated = self._read_program(path, self._bpf)
                self.error = ""
            except OSError as error:
                if error.errno in device_program.REFUSED:
                    self._bpf = None  # not permitted here, nor will it be
                    self.error = device_program.refusal()
                    return {}
                self.error = str(error)
                return self._known
            if allocated is not None:
                self._known[job] = allocated
        return dict(self._known)

    def _read_program(self, path: str, bpf: device_program.Bpf) -> Allocation | None:
        root = self._site.cgroupfs
        folder = next((at for at in (Path(f"{root}{path}"), Path(f"{root}/unified{path}")) if is_folder(at)), None)
        if folder is None:
            return None
        try:
            rules = device_program.rules(folder, bpf)
        except FileNotFoundError:  # the job has ended
            return None
        return None if rules is None else allowed(rules, self._site.procfs)


def allowed(rules: Collection[device_program.Rule], procfs: Path) -> Allocation:
    """Return the devices that rules let a job open. Of a GPU with MIG instances, only the instances."""
    minors = {rule.minor for rule in rules if rule.allowed and rule.major == gres.NVIDIA_MAJOR}
    caps_major = re.search(r"^ *(\d+) nvidia-caps$", read_text(f"{procfs}/devices"), re.MULTILINE)
    if not caps_major:
        return {DeviceName(minor=minor): None for minor in sorted(minors)}
    major = int(caps_major[1])
    caps = gres.mig_minors(read_text(f"{procfs}/driver/nvidia-caps/mig-minors"))
    opened = {caps[rule.minor] for rule in rules if rule.allowed and rule.major == major and rule.minor in caps}
    exact = {name._replace(compute_instance=None) for name in opened if name.compute_instance is not None}
    instances = {name for name in opened if name.minor in minors and name not in exact}
    whole = minors - {name.minor for name in instances}
    return dict.fromkeys((*(DeviceName(minor=minor) for minor in sorted(whole)), *sorted(instances, key=str)))


class LocalFiles:
    """Local files of Slurm."""

    def __init__(self, site: SlurmSite, bpf: device_program.Bpf, user_name: Callable[[int], str]) -> None:
        self._site = site
        self._user_name = user_name
        self._programs = DevicePrograms(site, bpf)
        self._mapped: AbstractSet[str] = frozenset()
        self._last: tuple[DeviceName | None, ...] = ()
        self.evident = site.required
        self.names = site.names
        self.slurm_names: frozenset[str] = frozenset()
        """Slurm's own names of this node, from cgroups and prologs: the host's may differ."""
        self.parents: frozenset[str] = frozenset()
        """Other parents of job cgroups, beside Slurm's own."""

    def read(self, mapped: AbstractSet[str], known: Callable[[str], object]) -> NodeView:
        """Read the node. `mapped` are the jobs of the prolog's files, `known` is what slurmctld reported of a job."""
        site = self._site
        seen = job_cgroups(site.cgroupfs, self.parents)
        sluids = {name: job_of_sluid(site.cgroupfs, site.procfs, at) for name, at in seen.items() if name[0] == "s"}
        cgroups = {sluids.get(name, name): at for name, at in seen.items()}
        cgroups.pop("", None)
        places = {job: parse_path(at) for job, at in cgroups.items()}
        self.add_names({place.node for place in places.values()} - {""})
        devices = self._devices()
        constrained = self._programs.read(cgroups)
        known_jobs = mapped | constrained.keys() | {job for job in cgroups if known(job)}
        empty = {job for job, at in cgroups.items() if not occupied(site.cgroupfs, at)}
        running = {job for job in cgroups.keys() - empty if runs_program(site.cgroupfs, site.procfs, cgroups[job])}
        environs = [
            (job, merged(job, (read_environ(pid, site.procfs) for pid in processes(site.cgroupfs, cgroups[job]))))
            for job in cgroups.keys() - known_jobs
        ]
        self._mapped = mapped | (self._mapped & cgroups.keys())
        self.evident = self.evident or bool(cgroups or mapped or devices)
        return NodeView(
            present=bool(site.required or cgroups or mapped or devices or site.mapping),
            evident=self.evident,
            cgroups=cgroups,
            sluids=sluids,
            users={job: self._user_name(int(place.job_uid)) for job, place in places.items() if place.job_uid},
            finished_jobs=frozenset((self._mapped - mapped) & empty),
            silent=frozenset((mapped | cgroups.keys()) - running),
            constrained=constrained,
            job_environ={job: found for job, found in environs if found},
            program_error=self._programs.error,
            devices=devices,
        )

    def add_names(self, names: AbstractSet[str]) -> None:
        """Add Slurm's own names of this node."""
        self.slurm_names |= names
        self.names |= names

    def _devices(self) -> tuple[DeviceName | None, ...]:
        found = gres.read(self._site.gres_conf, self._site.procfs, self.names)
        if found is gres.UNREADABLE is not self._last:
            log.warning("%s: may not be read: which GPUs Slurm's numbers mean is not known", self._site.gres_conf)
        self._last = found
        return found


_HELPERS = frozenset({"slurmstepd", "slurm_script", "srun"})
"""Command names of Slurm's own processes: a step's manager, a batch script's shell, the client that starts steps."""
_PLACEHOLDER = b"sleep\x00100000000\x00"
"""Command line of the process that keeps the extern step alive. It outlives a killed slurmstepd."""
_TITLE = re.compile(rb"slurmstepd: \[([0-9]+)[.+]")
_MAX_PROCESSES = 256
"""Processes that are read of one job: the first ones are enough."""


def job_cgroups(cgroupfs: Path, also: Iterable[str] = ()) -> Mapping[str, str]:
    """Return the cgroups by job id or SLUID, as paths under the mount. `also` are more parents of job cgroups."""
    found: dict[str, str] = {}
    for mount in mounts(cgroupfs):
        for parent in {*_parent_cgroups(mount), *also}:
            for name in folders(f"{mount}{parent}"):
                path = f"{parent}/{name}"
                seen = parse_path(path)
                if seen.job_path == path:
                    found.setdefault(seen.job or seen.sluid, path)
    return found


def processes(cgroupfs: Path, job_path: str) -> tuple[int, ...]:
    """Return the pids in the job's cgroup and below, in the hierarchy that has it."""
    for mount in mounts(cgroupfs):
        pids = [pid for folder, _, files in os.walk(f"{mount}{job_path}") for pid in _folder_pids(folder, files)]
        if pids:
            return tuple(pids[:_MAX_PROCESSES])
    return ()


def occupied(cgroupfs: Path, job_path: str) -> bool:
    """Return whether any process is in the job's cgroup or below."""
    for mount in mounts(cgroupfs):
        events = read_text(f"{mount}{job_path}/cgroup.events")
        if "populated 1" in events:
            return True
        if not events and any(_folder_pids(folder, files) for folder, _, files in os.walk(f"{mount}{job_path}")):
            return True  # version 1 has no such file
    return False


def runs_program(cgroupfs: Path, procfs: Path, job_path: str) -> bool:
    """Return whether any process in the job's cgroup or below is not Slurm's own."""
    return any(
        not _is_helper(procfs / str(pid), parse_path(folder).step)
        for mount in mounts(cgroupfs)
        for folder, _, files in os.walk(f"{mount}{job_path}")
        for pid in _folder_pids(folder, files)
    )


def _is_helper(process: Path, step: str) -> bool:
    if read_text(f"{process}/comm").strip() in _HELPERS:
        return True
    return step == "extern" and _command_line(process) == _PLACEHOLDER


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def job_of_sluid(cgroupfs: Path, procfs: Path, job_path: str) -> str:
    """Return the raw job id of a SLUID, from the title of the step's slurmstepd; empty while none runs."""
    for pid in processes(cgroupfs, job_path):
        match = _TITLE.match(_command_line(procfs / str(pid)))
        if match:
            return match[1].decode()
    return ""


def _parent_cgroups(mount: str) -> Iterator[str]:
    """Yield slurmstepd.scope in the root or in any slice (CgroupSlice may move it), and the users of version 1."""
    for top in folders(mount):
        if top.endswith("slurmstepd.scope"):
            yield f"/{top}"
        elif top.endswith(".slice"):
            yield from (f"/{top}/{name}" for name in folders(f"{mount}/{top}") if name.endswith("slurmstepd.scope"))
        elif top == "slurm" or top.startswith("slurm_"):
            yield from (f"/{top}/{name}" for name in folders(f"{mount}/{top}") if name.startswith("uid_"))


def _folder_pids(folder: str, files: list[str]) -> list[int]:
    if "cgroup.procs" not in files:
        return []
    try:
        return [int(line) for line in Path(folder, "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []
