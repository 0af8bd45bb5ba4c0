"""Asking slurmctld about a job, once, in a thread of its own.

Costs slurmctld three small RPCs per new job (never squeue, which sends every job of the cluster to every node).
A dead slurmctld makes scontrol hang 18 s, so a time-out ends it and further questions wait, longer each time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from exporter.attribution.background_source import SourceError
from exporter.attribution.ownership import SourceHealth
from exporter.attribution.slurm.job import Job
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

UNKNOWN_SECONDS = 60.0
"""A job slurmctld does not know (or hides: PrivateData) is asked about again after this."""
RETURN_SECONDS = 10.0
"""A job that was away for longer was requeued: it may hold other GPUs now."""
FORGET_SECONDS = 600.0
_LONGEST_PAUSE = 60.0


class JobCache:
    """What is known of this node's jobs; asks about each new one once. Neither method waits.

    `jobs` is replaced, never changed in place; a job keeps its entry until long after its last process.
    """

    def __init__(
        self, ask: Callable[[str], Job | None], *, pause: float = 5.0, clock: MonotonicClock = monotonic_time
    ) -> None:
        self._ask = ask
        self._pause = pause
        self._clock = clock
        self._wanted: dict[str, MonotonicTime] = {}
        """Job to when it was first asked about without an answer."""
        self._retry: dict[str, MonotonicTime] = {}
        self._seen: dict[str, MonotonicTime] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = False
        self._success = True
        self.error = ""
        self.jobs: Mapping[str, Job] = {}

    def start(self, threads: Threads | None = None) -> None:
        (threads or Threads()).start("scontrol", self._run)

    @property
    def changes(self) -> int:
        """How many jobs it has learned of."""
        return len(self.jobs)

    def stop(self) -> None:
        """Ask the thread to end; one that waits for scontrol is left behind."""
        self._stopped = True
        self._woken.set()

    def want(self, jobs: Collection[str]) -> None:
        """These jobs are on this node now: those not known yet will be asked about."""
        now = self._clock()
        with self._lock:
            back = {job for job in jobs if now - self._seen.get(job, now) > RETURN_SECONDS}
            self._seen |= dict.fromkeys(jobs, now)
            fresh = [job for job in jobs if job not in self._wanted and (job not in self.jobs or job in back)]
            due = [job for job in fresh if self._retry.get(job, NEVER) <= now]
            self._wanted |= dict.fromkeys(due, now)
        if due:
            self._woken.set()

    def pending(self, job: str) -> bool:
        """Whether an answer about `job` is still to come."""
        return job in self._wanted

    def unknown(self) -> frozenset[str]:
        """Jobs of this node that slurmctld reports it does not know: ended long ago, or hidden from this user."""
        with self._lock:
            return frozenset(self._retry.keys() & self._seen.keys())

    def health(self, now: MonotonicTime) -> SourceHealth:
        """The age is that of the oldest question without an answer: with none open, what is known is current."""
        with self._lock:
            oldest = min(self._wanted.values(), default=now)
        return SourceHealth("slurm_scontrol", self._success, max(0.0, now - oldest))

    def answer_next(self) -> bool:
        """Ask about one wanted job now, in the caller's thread; whether slurmctld answered (or nothing was asked)."""
        with self._lock:
            job = next(iter(self._wanted), None)
        if job is None:
            return True
        try:
            found = self._ask(job)
        except Exception as error:  # whatever is wrong with one job, the others are asked about
            if not isinstance(error, SourceError) and not self.error:
                log.exception("job %s cannot be asked about", job)
            self._success, self.error = False, str(error) or type(error).__name__
            with self._lock:
                if job in self._wanted:  # to the end: one bad job must not keep the others waiting
                    self._wanted[job] = self._wanted.pop(job)
            return False
        self._success, self.error = True, ""
        now = self._clock()
        with self._lock:
            gone = {old for old, seen in self._seen.items() if now - seen > FORGET_SECONDS}
            answered = {job: found} if found else {}
            self.jobs = {old: known for old, known in self.jobs.items() if old not in gone} | answered
            self._retry = {old: at for old, at in self._retry.items() if old not in gone and old not in answered}
            self._seen = {old: at for old, at in self._seen.items() if old not in gone}
            if not found:
                self._retry[job] = now + UNKNOWN_SECONDS
            self._wanted.pop(job, None)
        return True

    def _drop_ended(self) -> None:
        """Questions about jobs that have left meanwhile answer themselves."""
        with self._lock:
            now = self._clock()
            self._wanted = {
                job: at for job, at in self._wanted.items() if now - self._seen.get(job, at) <= UNKNOWN_SECONDS
            }

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            self._woken.clear()
            answered = self.answer_next()
            failures = 0 if answered else failures + 1
            self._drop_ended()
            if failures:
                pause = min(_LONGEST_PAUSE, self._pause * 2 ** min(failures - 1, 10))
                until = monotonic_time() + pause
                while not self._stopped and monotonic_time() < until:
                    self._woken.wait(max(0.0, until - monotonic_time()))
                    self._woken.clear()
            elif not self._wanted and not self._stopped:
                self._woken.wait()
