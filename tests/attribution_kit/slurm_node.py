"""One node of a Slurm cluster, as much of it as attribution reads, and the owners its jobs are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.owner import Owner
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.source import Slurm, SlurmSite

STEP = "/system.slice/slurmstepd.scope/job_{}/step_0/user/task_0"


def job(number: str, user: str = "", account: str = "", partition: str = "") -> Owner:
    return Owner(f"slurm:{number}", "slurm", slurm_job=number, user=user, account=account, partition=partition)


class Node:
    """Slurm over a directory that stands for the node: cgroups, prolog's files, slurmctld's answers."""

    def __init__(self, root: Path, *, controller: Mapping[str, Job] | None = None) -> None:
        self.root = root
        self.mapping = root / "map"
        self.mapping.mkdir(parents=True)
        (root / "cgroup").mkdir()
        (root / "cgroup/cgroup.controllers").write_text("")
        (root / "proc").mkdir()
        site = SlurmSite(
            procfs=root / "proc",
            cgroupfs=root / "cgroup",
            gres_conf=root / "gres.conf",
            mapping=self.mapping,
            scontrol="scontrol" if controller is not None else "",
            names=frozenset({"n1"}),
        )
        self.slurm = Slurm(site, (controller or {}).get, bpf=_refused)
        self.attribution = attribution_of(Parts(slurm=self.slurm, procfs=root / "proc"))

    def map(self, name: str, *jobs: str) -> None:
        (self.mapping / name).write_text("".join(f"{each}\n" for each in jobs))

    def cgroup(self, number: str, *pids: int) -> None:
        folder = self.root / f"cgroup/system.slice/slurmstepd.scope/job_{number}/step_0/user/task_0"
        folder.mkdir(parents=True)
        (folder / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))

    def read(self) -> None:
        """What the sources' threads do."""
        assert self.slurm._mapping
        self.slurm._mapping.ask_once()
        self.slurm._local_files.ask_once()
        for cache in self.slurm._caches:
            while cache._wanted and cache.answer_next():
                pass


def _refused(command: int, attributes: object) -> int:
    del command, attributes
    raise PermissionError(1, "not permitted")
