"""Slurm on this node, from every source that can tell, each read outside the passes and each failing alone.

Which GPUs a job holds, in order of trust: the prolog's files, slurmd's device program, slurmctld, the environment.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from exporter.attribution.background_source import LAST_KNOWN_SECONDS, BackgroundSource
from exporter.attribution.cgroup import parse_path
from exporter.attribution.devices import DeviceName
from exporter.attribution.ownership import SourceHealth
from exporter.attribution.slurm import device_program, gres
from exporter.attribution.slurm import environ as slurm_environ
from exporter.attribution.slurm.cgroup_tree import job_cgroups, job_of_sluid, processes
from exporter.attribution.slurm.environ import JobEnviron
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.prolog_files import MappedDevice, MappingFolder
from exporter.attribution.slurm.scontrol import JobCache
from exporter.host.process import user_name

MAPPING, PROGRAM, SCONTROL, ENVIRON = "slurm_mapping", "slurm_device_program", "slurm_scontrol", "slurm_environ"
TRUST = (MAPPING, PROGRAM, SCONTROL, ENVIRON)
INTERVAL = 1.0
ABSENT_INTERVAL = 10.0
"""Between looks where there is no sign of Slurm: a first job shows by its process before that."""
MAPPING_INTERVAL = 0.25
"""Between looks at the prolog's files: they are the first and exact word on when a job holds its GPUs."""
MAPPING_LONGEST = 1.0
"""Between looks while there is no directory: the first prolog makes it."""

Allocation = Mapping[DeviceName, float | None]
"""Devices of a job; with each the amount of it (shards, MPS percent) where one is stated."""


@dataclass(frozen=True, slots=True)
class NodeView:
    """Slurm on this node at one moment, from local files alone."""

    present: bool = False
    cgroups: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job to its cgroup."""
    sluids: Mapping[str, str] = field(default_factory=dict[str, str])
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job to its user, where its cgroup tells (version 1)."""
    mapped: frozenset[str] = frozenset()
    """Jobs that the prolog's files name, or named while their cgroup was there."""
    finished_jobs: frozenset[str] = frozenset()
    """Jobs that an epilog has taken out of the files, whose cgroup lingers with nobody in it."""
    constrained: Mapping[str, Allocation] = field(default_factory=dict[str, Allocation])
    job_environ: Mapping[str, JobEnviron] = field(default_factory=dict[str, JobEnviron])
    program_error: str = ""
    devices: tuple[DeviceName | None, ...] = ()
    """By GRES index."""


@dataclass(frozen=True, slots=True)
class SlurmSite:
    """Where Slurm is looked for. No `mapping` directory: no such files. No `scontrol`: slurmctld is not asked."""

    procfs: Path = Path("/proc")
    cgroupfs: Path = Path("/sys/fs/cgroup")
    gres_conf: Path = Path("/etc/slurm/gres.conf")
    mapping: Path | None = None
    scontrol: str = "scontrol"
    names: frozenset[str] = frozenset()
    """What this node may be called in Slurm; its cgroups tell more."""
    required: bool = False
    """Whether Slurm must be here, rather than may."""


class Slurm:
    """The node's Slurm jobs. Only `start`ed threads read; `node`, `jobs` and `held` give what was read last."""

    def __init__(
        self,
        site: SlurmSite,
        ask: Callable[[str], Job | None],
        *,
        bpf: device_program.Bpf = device_program.kernel_bpf,
        user_name: Callable[[int], str] = user_name,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._site = site
        self._clock = clock
        self._user_name = cache(user_name)
        self._names = site.names
        self._bpf: device_program.Bpf | None = bpf
        self._job_cache = JobCache(ask, clock=clock) if site.scontrol else None
        self._programs: dict[str, Allocation] = {}
        self._parents: frozenset[str] = frozenset()
        self._noticed: frozenset[str] = frozenset()
        self._local_files = BackgroundSource(self._look, NodeView(), name="slurm", interval=_interval, clock=clock)
        self._mapping = _mapping(site.mapping, self._local_files.wake, clock) if site.mapping else None

    def start(self) -> None:
        for source in (self._mapping, self._local_files, self._job_cache):
            if source:
                source.start()

    def stop(self) -> None:
        for source in (self._mapping, self._local_files, self._job_cache):
            if source:
                source.stop()

    @property
    def node(self) -> NodeView:
        return self._local_files.answer.value

    def job(self, job: str) -> Job | None:
        return self._job_cache.jobs.get(job) if self._job_cache else None

    def pending(self, job: str) -> bool:
        """Whether slurmctld is being asked about `job`."""
        return self._job_cache.pending(job) if self._job_cache else False

    def noticed(self, jobs: Collection[str], parents: Collection[str]) -> None:
        """Jobs seen in processes' cgroups, and the cgroups they were under: new ones are looked at at once."""
        new = frozenset(jobs) - self._noticed
        if new or not self._parents.issuperset(parents):
            self._parents = self._parents.union(parents)
            self._local_files.wake()
        self._noticed = frozenset(jobs)
        if self._job_cache:
            self._job_cache.want({*jobs, *self.present()})

    def present(self) -> AbstractSet[str]:
        """Jobs that hold something here: those of the prolog's files, and unfinished ones with a cgroup."""
        return self._mapped().keys() | (self.node.cgroups.keys() - self.node.finished_jobs)

    def held(self, job: str, job_environ: JobEnviron | None = None) -> Mapping[str, Allocation]:
        """By source, what the job holds here; a source that does not know is left out.

        `job_environ` is the word of a process of the job that is not in its cgroup.
        """
        view = self.node
        known = self.job(job)
        mapped = self._mapped().get(job)
        found = {
            MAPPING: _named(mapped, view.devices) if mapped else None,
            PROGRAM: view.constrained.get(job),
            SCONTROL: self._scheduled(known, view.devices) if known else None,
            ENVIRON: self._environ(view.job_environ.get(job) or job_environ, view.devices),
        }
        return {source: held for source, held in found.items() if held is not None}

    def health(self, now: float, conflicts: Mapping[str, int]) -> tuple[SourceHealth, ...]:
        answer = self._local_files.answer
        view = answer.value
        if not view.present:
            return ()
        found: list[SourceHealth] = []
        if self._mapping:
            found.append(self._mapping.answer.health(MAPPING, now, conflicts.get(MAPPING, 0)))
        if view.constrained:
            age = max(0.0, now - answer.at)
            found.append(SourceHealth(PROGRAM, not view.program_error, age, conflicts.get(PROGRAM, 0)))
        if self._job_cache:
            asked = self._job_cache.health(now)
            found.append(SourceHealth(SCONTROL, asked.success, asked.age, conflicts.get(SCONTROL, 0)))
        return tuple(found)

    def _look(self) -> NodeView:
        site = self._site
        seen = job_cgroups(site.cgroupfs, self._parents)
        sluids = {name: job_of_sluid(site.cgroupfs, site.procfs, at) for name, at in seen.items() if name[0] == "s"}
        cgroups = {sluids.get(name, name): at for name, at in seen.items()}
        cgroups.pop("", None)
        places = {job: parse_path(at) for job, at in cgroups.items()}
        self._names |= {place.node for place in places.values()} - {""}
        users = {job: self._user_name(int(place.job_uid)) for job, place in places.items() if place.job_uid}
        devices = gres.read(site.gres_conf, site.procfs, self._names)
        mapped = frozenset(self._mapped())
        constrained, program_error = self._constrained(cgroups)
        told = mapped | constrained.keys() | {job for job in cgroups if self.job(job)}
        present = bool(site.required or cgroups or mapped or devices or site.mapping)
        job_environ = {job: found for job in cgroups.keys() - told if (found := self._environ_of(job, cgroups[job]))}
        once = mapped | (self.node.mapped & cgroups.keys())
        finished_jobs = frozenset(job for job in once - mapped if not processes(site.cgroupfs, cgroups[job]))
        if self._job_cache:
            self._job_cache.want(mapped | (cgroups.keys() - finished_jobs))
        return NodeView(
            present=present,
            cgroups=cgroups,
            sluids=sluids,
            users=users,
            mapped=once,
            finished_jobs=finished_jobs,
            constrained=constrained,
            job_environ=job_environ,
            program_error=program_error,
            devices=devices,
        )

    def _mapped(self) -> Mapping[str, tuple[MappedDevice, ...]]:
        """What the prolog's files say; for a while also after they could be read."""
        if not self._mapping:
            return {}
        answer = self._mapping.answer
        known = answer.success or self._clock() - answer.at <= LAST_KNOWN_SECONDS
        return answer.value if known else {}

    def _constrained(self, cgroups: Mapping[str, str]) -> tuple[Mapping[str, Allocation], str]:
        """Each job's program is read once: an allocation does not change."""
        self._programs = {job: held for job, held in self._programs.items() if job in cgroups}
        for job, path in cgroups.items():
            if self._bpf is None or job in self._programs:
                continue
            try:
                held = self._program(path)
            except OSError as error:
                if error.errno in (errno.EPERM, errno.ENOSYS, errno.EINVAL):
                    self._bpf = None  # not permitted here, nor will it be
                    return {}, ""
                return self._programs, str(error)
            if held is not None:
                self._programs[job] = held
        return dict(self._programs), ""

    def _program(self, path: str) -> Allocation | None:
        bpf = self._bpf
        root = self._site.cgroupfs
        folder = next((at for at in (Path(f"{root}{path}"), Path(f"{root}/unified{path}")) if at.is_dir()), None)
        if folder is None or bpf is None:
            return None
        try:
            rules = device_program.rules(folder, bpf)
        except FileNotFoundError:  # the job has ended
            return None
        if rules is None:
            return None
        return {
            DeviceName(minor=rule.minor): None for rule in rules if rule.allowed and rule.major == gres.NVIDIA_MAJOR
        }

    def _environ_of(self, job: str, path: str) -> JobEnviron | None:
        pids = processes(self._site.cgroupfs, path)
        return slurm_environ.merged(job, (slurm_environ.read(pid, self._site.procfs) for pid in pids))

    def _scheduled(self, job: Job, devices: tuple[DeviceName | None, ...]) -> Allocation | None:
        here = job.held_on(self._names)
        if job.gres is None or (job.gres and not here):
            return None
        found: dict[DeviceName, float | None] = {}
        for each in here:
            shared = each.name != "gpu" and len(each.indices) > 0
            part = each.amount / len(each.indices) if shared else None
            names = (gres.by_index(devices, index) for index in each.indices)
            found |= {name: part for name in names if name}
        return found

    def _environ(self, environ: JobEnviron | None, devices: tuple[DeviceName | None, ...]) -> Allocation | None:
        if environ is None or not environ.gpus:
            return None
        return {name: None for index in environ.gpus if (name := gres.by_index(devices, index))}


def _interval(view: NodeView) -> float:
    return INTERVAL if view.present else ABSENT_INTERVAL


def _mapping(
    folder: Path, changed: Callable[[], None], clock: Callable[[], float]
) -> BackgroundSource[Mapping[str, tuple[MappedDevice, ...]]]:
    nothing: Mapping[str, tuple[MappedDevice, ...]] = {}
    read = MappingFolder(folder).read
    return BackgroundSource(
        read, nothing, name="slurm-mapping", interval=lambda _: MAPPING_INTERVAL, longest=MAPPING_LONGEST,
        clock=clock, changed=changed,
    )  # fmt: skip


def _named(mapped: Iterable[MappedDevice], devices: tuple[DeviceName | None, ...]) -> Allocation:
    names = (each.device or _instance(devices, each) for each in mapped)
    return {name: None for name in names if name}


def _instance(devices: tuple[DeviceName | None, ...], mapped: MappedDevice) -> DeviceName | None:
    found = gres.by_index(devices, mapped.index) if mapped.index is not None else None
    if found is None or mapped.gpu_instance is None:
        return found
    return found._replace(gpu_instance=mapped.gpu_instance)
