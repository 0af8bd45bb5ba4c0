"""Slurm on this node. Each source is read outside the sampling cycle and fails alone.

The sources of a job's GPUs, in order of trust: the prolog's files, slurmd's device program, slurmctld, the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from random import SystemRandom

from exporter.attribution.background_source import LAST_KNOWN_SECONDS, BackgroundSource
from exporter.attribution.devices import DeviceName
from exporter.attribution.owner import NOT_HERE, SourceHealth
from exporter.attribution.slurm import device_program, gres
from exporter.attribution.slurm.job import Job, JobVariables
from exporter.attribution.slurm.local_view import Allocation, LocalFiles, NodeView, SlurmSite
from exporter.attribution.slurm.prolog_files import MappedDevice, MappingFolder, PrologFiles
from exporter.attribution.slurm.reconciliation import Ended, Reconciliation, Scontrol, runs
from exporter.attribution.slurm.scontrol import JobCache
from exporter.attribution.source import Reader
from exporter.core.clock import EPOCH, MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.host.process import user_name

MAPPING, PROGRAM, SCONTROL, ENVIRON = "slurm_mapping", "slurm_device_program", "slurm_scontrol", "slurm_environ"
STEPS = "slurm_steps"
TRUST = (MAPPING, PROGRAM, SCONTROL, ENVIRON)
INTERVAL_SECONDS = 1.0
ABSENT_INTERVAL_SECONDS = 10.0
"""Interval without a sign of Slurm: a first job shows by its process before that."""
SPREAD_SECONDS, NODES_PER_SECOND = 30.0, 10
"""Time over which the nodes of a large job ask slurmctld about it."""
MAPPING_INTERVAL_SECONDS = 0.25
"""Interval for the prolog's files: they are the first to report when a job has its GPUs, and exact."""
MAX_MAPPING_INTERVAL_SECONDS = 1.0
"""Interval while there is no directory: the first prolog makes it."""


class Slurm:
    """The node's Slurm jobs. Only the threads of `readers` read; the methods return the last reports."""

    def __init__(
        self,
        site: SlurmSite,
        ask: Callable[[str], Job | None],
        with_gpus: Callable[[str], Job | None] | None = None,
        *,
        bpf: device_program.Bpf = device_program.kernel_bpf,
        user_name: Callable[[int], str] = user_name,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._clock = clock
        self._local = LocalFiles(site, bpf, user_name)
        self._job_cache: JobCache | None = None
        self._gpu_cache: JobCache | None = None
        """Jobs whose GPUs no other source reports, asked about in more detail."""
        self._spread = SystemRandom().random()
        self._reconciliation: Reconciliation | None = None
        self._ended: BackgroundSource[Mapping[str, Ended]] | None = None
        if site.scontrol:
            self._job_cache = JobCache(ask, delay=self._question_delay, clock=clock)
            self._gpu_cache = JobCache(with_gpus or ask, name="scontrol-gpus", delay=self._question_delay, clock=clock)
            rounds = Reconciliation(Scontrol(site.scontrol, site.procfs), ask, self._is_elsewhere, clock)
            self._reconciliation = rounds
            self._ended = BackgroundSource(
                rounds.check, {}, name="slurm-steps", interval=lambda _: rounds.pause, clock=clock
            )
            self._ended.ask_once()  # without jobs nobody is asked: a first answer, until slurmd's
        self._noticed: frozenset[str] = frozenset()
        self._notes: Mapping[str, tuple[Job, UnixTime]] = {}
        """Reports of the prolog about the jobs that are here: their processes may outlive its files."""
        self._local_files = BackgroundSource(
            self._read_node,
            NodeView(),
            name="slurm",
            interval=lambda view: INTERVAL_SECONDS if view.present else ABSENT_INTERVAL_SECONDS,
            clock=clock,
        )
        self._mapping: BackgroundSource[PrologFiles] | None = None
        if site.mapping:
            self._mapping = BackgroundSource(
                MappingFolder(site.mapping).read,
                PrologFiles(),
                name="slurm-mapping",
                interval=lambda _: MAPPING_INTERVAL_SECONDS,
                longest=MAX_MAPPING_INTERVAL_SECONDS,
                clock=clock,
                changed=self._local_files.wake,
            )

    def readers(self, source: str) -> Sequence[Reader]:
        """Return the readers of one of the sources."""
        readers: Mapping[str, Sequence[Reader | None]] = {
            MAPPING: (self._mapping,),
            PROGRAM: (self._local_files,),
            SCONTROL: (self._job_cache, self._gpu_cache, self._ended),
        }
        return [reader for reader in readers[source] if reader]

    @property
    def node(self) -> NodeView:
        return self._local_files.answer.value

    def job(self, job: str) -> Job | None:
        """Return slurmctld's report with the labels of the prolog, which came first: labels never change.

        Slurm cuts the start to whole seconds: the prolog's file has the moment.
        """
        cached = self._job_cache.jobs.get(job) if self._job_cache else None
        detailed = self._gpu_cache.jobs.get(job) if self._gpu_cache else None
        if cached and detailed and cached.gres is None:
            cached = replace(cached, gres=detailed.gres)
        note = self._prolog_note(job)
        if note is None:
            return cached
        noted, written = note
        known = cached or noted
        start = known.start_time
        return replace(
            known,
            user=noted.user or known.user,
            account=noted.account or known.account,
            partition=noted.partition or known.partition,
            start_time=written if start is None else min(max(start, written), UnixTime(float(start) + 1.0)),
        )

    def _prolog_note(self, job: str) -> tuple[Job, UnixTime] | None:
        """Return the prolog's report of a job, and when it was written; the last one of a job that is still here."""
        files = self._prolog_files()
        noted = files.jobs.get(job)
        return (noted, files.written[job]) if noted else self._notes.get(job)

    def pending(self, job: str) -> bool:
        """Return whether slurmctld is being asked about `job`."""
        if self._job_cache and not self._mapping_was_read:
            return True
        return any(cache.pending(job) for cache in self._caches)

    @property
    def _caches(self) -> Sequence[JobCache]:
        return [cache for cache in (self._job_cache, self._gpu_cache) if cache]

    def noticed(self, jobs: Collection[str], parents: Collection[str]) -> None:
        """Note the jobs in processes' cgroups, and the parents of those cgroups: new ones are read at once."""
        new = frozenset(jobs) - self._noticed
        if new or not self._local.parents.issuperset(parents):
            self._local.parents = self._local.parents.union(parents)
            self._local_files.wake()
        self._noticed = frozenset(jobs)
        self._notes = {job: note for job in jobs if (note := self._prolog_note(job))}
        self._ask_about({*jobs, *self.present()}, self.node)

    def present(self) -> AbstractSet[str]:
        """Return the jobs that have not ended and have a file of the prolog or a cgroup."""
        node = self.node
        if not node.present:  # gres.conf has not been read: what an index means is not known yet
            return frozenset()
        return (self._prolog_files().devices.keys() | (node.cgroups.keys() - node.finished_jobs)) - self.ended()

    def ended(self) -> AbstractSet[str]:
        """Return the jobs that have no allocation here any more, although they left something."""
        checked = self._ended.answer.value if self._ended else dict[str, Ended]()
        silent, files = self.node.silent, self._prolog_files()
        gone = {job for job, each in checked.items() if each.left_programs or job in silent}
        again = {job for job in gone if files.written.get(job, EPOCH) > checked[job].asked_at}
        return (gone - again) | files.old

    def ends(self) -> Mapping[str, UnixTime]:
        """Return the ends of the last jobs, by the files of the prolog."""
        return self._prolog_files().ended

    def contest(self, jobs: AbstractSet[str]) -> None:
        """Have slurmctld asked about jobs with the same GPU that do not share it."""
        if self._reconciliation:
            self._reconciliation.contest(jobs)

    def allocations(self, job: str, job_environ: JobVariables | None = None) -> Mapping[str, Allocation]:
        """Return the job's allocation here by source, without sources that do not know it.

        `job_environ` are the variables of a process of the job that is not in its cgroup.
        """
        view = self.node
        own = view.job_environ.get(job) or job_environ
        by_environ = own and (own.devices or tuple(_device_name(view.devices, index) for index in own.gpus))
        known = self.job(job)
        mapped = self._prolog_files().devices.get(job)
        found: dict[str, Allocation | None] = {
            MAPPING: {name: None for each in mapped if (name := _mapped_device(view.devices, each))}
            if mapped
            else None,
            PROGRAM: view.constrained.get(job),
            SCONTROL: self._scheduled_allocation(known, view.devices) if known else None,
            ENVIRON: dict.fromkeys(by_environ) if by_environ else None,
        }
        return {source: allocated for source, allocated in found.items() if allocated is not None}

    def health(
        self, source: str, now: MonotonicTime, conflicts: Mapping[str, int], unresolved: Mapping[str, int]
    ) -> tuple[SourceHealth, ...]:
        """Return the health of one source, if it is read; `unresolved` is its number of unknown devices."""
        view = self.node
        if not (view.evident or self._prolog_files().devices):  # the files are read before the node is read anew
            return ()
        if source == STEPS and self._ended:
            return (replace(self._ended.health(STEPS, now, conflicts.get(STEPS, 0)), stale=len(self.ended())),)
        if source == MAPPING and self._mapping:
            found = self._mapping.health(MAPPING, now)
        elif source == PROGRAM and (view.constrained or view.program_error):
            found = SourceHealth(PROGRAM, not view.program_error, max(0.0, now - self._local_files.answer.at))
        elif source == SCONTROL and self._job_cache:
            each = [cache.health(now) for cache in self._caches]
            hidden = self._job_cache.unknown() & (view.cgroups.keys() - view.silent)
            success = all(one.success for one in each) and not hidden
            found = SourceHealth(SCONTROL, success, max(one.age for one in each))
        else:
            return ()
        missing = {NOT_HERE: unresolved.get(source, 0)}
        return (replace(found, conflicts=conflicts.get(source, 0), unresolved=missing),)

    def _read_node(self) -> NodeView:
        files = self._prolog_files()
        self._local.add_names(files.nodes)
        self._local.evident = self._local.evident or bool(files.old)
        view = self._local.read(files.devices.keys(), self.job)
        present = self._prolog_files().devices.keys() | (view.cgroups.keys() - view.finished_jobs)
        if self._reconciliation and self._ended:
            due = self._reconciliation.watch(present | self._noticed, view.silent - view.finished_jobs)
            if due:
                self._ended.wake()
        self._ask_about(present, view)
        return view

    def _ask_about(self, jobs: AbstractSet[str], view: NodeView) -> None:
        """Have slurmctld asked about jobs that the prolog does not describe, and for what no other source reports."""
        if not self._job_cache or not self._gpu_cache or not self._mapping_was_read:
            return
        files, known = self._prolog_files(), self._job_cache.jobs
        asked = jobs - files.complete - self.ended()  # one that comes back is asked about anew
        self._job_cache.want(asked)
        located = files.devices.keys() | view.constrained.keys()
        unclear = {job for job in asked & known.keys() if known[job].gres is None}
        self._gpu_cache.want({job for job in unclear if job not in located or known[job].parts})

    @property
    def _mapping_was_read(self) -> bool:
        """Return whether the prolog's files were read or cannot be. Before, slurmctld would be asked for it."""
        return self._mapping is None or self._mapping.answer.success or bool(self._mapping.answer.error)

    def _question_delay(self, job: str) -> float:
        """Return the seconds to wait before slurmctld is asked, so that the nodes of a large job ask in turn."""
        known = self._prolog_files().jobs.get(job) or (self._job_cache.jobs.get(job) if self._job_cache else None)
        others = (known.node_count or 1) - 1 if known else 0
        return self._spread * min(SPREAD_SECONDS, others / NODES_PER_SECOND)

    def _is_elsewhere(self, job: Job) -> bool:
        """Return whether the job's node list leaves this node out, by a name that Slurm has used for this node."""
        names = self._local.names
        known = self._job_cache.jobs.values() if self._job_cache else ()
        certain = self._local.slurm_names or any(each.node_list and each.runs_on(names) for each in known)
        return bool(certain) and not job.runs_on(names)

    def _prolog_files(self) -> PrologFiles:
        """Return the prolog's files; for LAST_KNOWN_SECONDS also after they could be read."""
        if not self._mapping:
            return PrologFiles()
        answer = self._mapping.answer
        known = answer.success or self._clock() - answer.at <= LAST_KNOWN_SECONDS
        return answer.value if known else PrologFiles()

    def _scheduled_allocation(self, job: Job, devices: tuple[DeviceName | None, ...]) -> Allocation | None:
        if not runs(job.state):
            return {}
        here = job.allocation_on(self._local.names)
        if job.gres is None or (job.gres and not here):
            return None
        found: dict[DeviceName, float | None] = {}
        for each in here:
            shared = each.name != "gpu" and len(each.indices) > 0
            part = each.amount / len(each.indices) if shared else None
            found |= {_device_name(devices, index): part for index in each.indices}
        return found


def _mapped_device(devices: tuple[DeviceName | None, ...], mapped: MappedDevice) -> DeviceName | None:
    if mapped.device:
        return mapped.device
    found = _device_name(devices, mapped.index) if mapped.index is not None else None
    return found._replace(gpu_instance=mapped.gpu_instance) if found and mapped.gpu_instance is not None else found


def _device_name(devices: tuple[DeviceName | None, ...], index: int) -> DeviceName:
    """Return the device of a GRES index; without one in gres.conf, a name that no device of this node has."""
    return gres.by_index(devices, index) or DeviceName(claimed=f"gres/gpu:{index}")
