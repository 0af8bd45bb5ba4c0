"""A node with GPUs and jobs whose true times are known, played cycle by cycle into the real tracker and store."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporter.accounting.model import Batch, Cycle, Usage
from exporter.accounting.store import AccountingStore, read_after
from exporter.accounting.tracker import AllocationTracker
from exporter.attribution.owner import NOBODY, Owner, Ownership, WorkloadInfo
from exporter.core.clock import Moment, MonotonicTime, UnixTime

MODEL = "NVIDIA H100"


@dataclass(frozen=True, slots=True)
class Job:
    """An allocation as it really was."""

    id: str
    start: float
    end: float
    gpus: tuple[str, ...] = ("GPU-0",)
    account: str = "vision"
    user: str = "ada"
    state: str = "computing"
    reports_end: bool = True
    reports_start: bool = True
    fraction: float = 1.0
    """Fraction of each of its GPUs: of a shared GPU, or of a MIG instance."""
    profile: str = ""
    namespace: str = ""
    """Namespace of a pod; empty for a job of Slurm."""
    partition: str = ""
    pod_labels: tuple[tuple[str, str], ...] = ()

    @property
    def owner(self) -> Owner:
        if self.namespace:
            workload = f"{self.namespace}/Job/{self.id}"
            return Owner(workload, "pod", namespace=self.namespace, pod=self.id, container="main")
        name = f"slurm:{self.id}"
        return Owner(name, "slurm", "", "", "", self.id, self.user, self.account, self.partition)

    @property
    def gpu_seconds(self) -> float:
        return len(self.gpus) * self.fraction * (self.end - self.start)


class Node:
    """Runs the tracker of one node; `restart` keeps what was written, `kill` loses what was not."""

    def __init__(
        self,
        path: Path,
        jobs: Sequence[Job],
        begin: float,
        *,
        all_gpus: tuple[str, ...] = ("GPU-0",),
        model: str = MODEL,
        pool: str | None = None,
    ) -> None:
        self.path = path
        self.jobs = jobs
        self.now = self._monotonic = begin
        self.all_gpus = all_gpus
        self.model = model
        self.pool = pool
        self.batches: list[Batch] = []
        self._before: float | None = None
        self._open()

    def _open(self) -> None:
        self._store = AccountingStore(self.path, self.now)
        stored = self._store.load_recent()
        self.store_id, self.published = stored.id, tuple(stored.counters)
        self._tracker = AllocationTracker(stored)
        self._before = None

    def kill(self) -> None:
        """Lose what the tracker has in memory, and start again."""
        self._store.close()
        self._open()

    def restart(self) -> None:
        self._store.write_batch(self._tracker.last_batch(self._before or self.now))
        self.kill()

    def forget(self, before: float) -> None:
        self._store.delete_before(before)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._monotonic += seconds

    def set_clock_back(self, seconds: float) -> None:
        """Set the wall clock back; the monotonic clock goes on."""
        self.now -= seconds
        self._before = self.now

    def cycle(self, seconds: float = 1.0, *, write: bool = True) -> None:
        """Run one cycle, so many seconds after the one before."""
        self.sleep(seconds)
        batch = self._tracker.account_cycle(self._cycle())
        self._before = self.now
        if batch:
            self.batches.append(batch)
            if write:
                self._store.write_batch(batch)
                self.published = tuple(batch.counters)

    def cycles(self, until: float) -> None:
        while self.now < until:
            self.cycle()

    def close(self) -> None:
        self._store.close()

    def _cycle(self) -> Cycle:
        running = [job for job in self.jobs if job.start <= self.now < job.end]
        usage = [
            Usage(job.owner, gpu, job.profile, {job.state: job.fraction}, 0.0, 100.0)
            for job in running
            for gpu in job.gpus
        ]
        free = dict.fromkeys(self.all_gpus, 1.0)
        for row in usage:
            free[row.gpu] -= sum(row.states.values())
        usage += [Usage(NOBODY, gpu, "", {"free": part}, 0.0, 0.0) for gpu, part in free.items() if part > 1e-9]
        info = {
            job.owner: WorkloadInfo(
                start_time=UnixTime(job.start) if job.reports_start else None, pod_labels=job.pod_labels
            )
            for job in running
        }
        ended = {job.owner.source_id: UnixTime(job.end) for job in self.jobs if job.reports_end and job.end <= self.now}
        return Cycle(
            Moment(UnixTime(self.now), MonotonicTime(self._monotonic)),
            0.0 if self._before is None else self.now - self._before,
            usage,
            dict.fromkeys(self.all_gpus, self.model),
            Ownership(info=info, ended=ended),
            pool=self.pool,
        )

    def rows(self) -> Sequence[Mapping[str, Any]]:
        rows: Sequence[Mapping[str, Any]] = read_after(self.path, 0, 1_000_000)["rows"]
        return rows

    def seconds(self) -> Mapping[str, float]:
        """GPU seconds by job, as rows have them."""
        found: dict[str, float] = defaultdict(float)
        for row in self.rows():
            found[row["facts"]["owner"][5]] += sum(row["states"].values())
        return found

    def counters(self) -> Mapping[str, float]:
        """GPU seconds by account, as the counters on disk have them."""
        found: dict[str, float] = defaultdict(float)
        with closing(sqlite3.connect(self.path)) as database:
            for account, seconds in database.execute(
                "SELECT json_extract(labels, '$[2]'), (SELECT sum(value) FROM json_each(states)) FROM counters"
            ):
                found[account] += seconds or 0.0
        return found


def by_account(jobs: Iterable[Job]) -> Mapping[str, float]:
    found: dict[str, float] = defaultdict(float)
    for job in jobs:
        found[job.account] += job.gpu_seconds
    return found
