"""Reporting processes, within quotas by account, so that no account can take the places of all."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from exporter.core.clock import NEVER, MonotonicTime
from exporter.progress.protocol import Report

REPORTERS_PER_ACCOUNT, REPORTERS = 256, 4096
OWN_PLACES = 16
"""Places of each account, whatever others have taken: as many again as `REPORTERS` are reserved for these."""
RATE, BURST = 100.0, 300.0
"""Reports of one account a second, and at once."""

RESULTS = ("accepted", "malformed", "rate_limited", "over_quota", "unknown_sender", "not_this_process")


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this node, distinct from a later one with the same pid. `user` is the real user id."""

    pid: int
    start_ticks: int
    user: int = field(compare=False)
    account: str = field(default="", compare=False)
    """Account of its quota; empty for its user's."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Last report of a process, and an earlier one that is old enough to measure its pace."""

    process: Process
    report: Report
    time: MonotonicTime
    earlier: Report | None = None
    earlier_time: MonotonicTime = NEVER


@dataclass(slots=True)
class _TokenBucket:
    left: float
    time: MonotonicTime


@dataclass(slots=True)
class Reporters:
    """Last reports of all processes. Filled by the threads that read reports, read by the sampling cycle."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _entries: dict[Process, Reporter] = field(default_factory=dict[Process, Reporter])
    _by_pid: dict[int, Process] = field(default_factory=dict[int, Process])
    _places: Counter[str] = field(default_factory=Counter[str])
    """Taken places by account."""
    _buckets: dict[str, _TokenBucket] = field(default_factory=dict[str, _TokenBucket])
    _results: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RESULTS, 0))

    def admit(self, account: str, now: MonotonicTime) -> bool:
        """Return whether an account may send one more report now; counts a refusal."""
        with self._lock:
            bucket = self._buckets.setdefault(account, _TokenBucket(BURST, now))
            bucket.left = min(BURST, bucket.left + RATE * max(0.0, now - bucket.time))
            bucket.time = now
            if bucket.left < 1.0:
                self._results["rate_limited"] += 1
                return False
            bucket.left -= 1.0
            return True

    def refuse(self, result: str) -> None:
        with self._lock:
            self._results[result] += 1

    def add(self, process: Process, report: Report, now: MonotonicTime, pace_seconds: float = 5.0) -> None:
        """Keep a report as the last one of its process."""
        with self._lock:
            known = self._entries.get(process)
            if known is not None and known.report.rank not in (None, report.rank):
                report = replace(report, rank=known.report.rank)  # a process has one rank, which is a label
            if known is None:
                taken, full = self._places[_account_of(process)], len(self._entries) >= REPORTERS
                limit = OWN_PLACES if full else REPORTERS_PER_ACCOUNT
                if taken >= limit or len(self._entries) >= 2 * REPORTERS:
                    self._results["over_quota"] += 1
                    return
                self._enter_reporter(Reporter(process, report, now, report, now))
            elif _account_of(known.process) != _account_of(process):
                self._leave_process(known.process)
                self._enter_reporter(Reporter(process, report, now, known.earlier, known.earlier_time))
            elif "steps" in report.counters and known.earlier and "steps" not in known.earlier.counters:
                self._entries[process] = Reporter(process, report, now, report, now)  # its first steps
            elif now - known.earlier_time >= 2 * pace_seconds and (
                # the pace is measured from one step to another: long steps need a longer time
                "steps" not in report.counters or report.counters["steps"] != known.report.counters.get("steps")
            ):
                self._entries[process] = Reporter(process, report, now, known.report, known.time)
            else:
                self._entries[process] = Reporter(process, report, now, known.earlier, known.earlier_time)
            self._by_pid[process.pid] = process
            self._results["accepted"] += 1

    def known(self, pid: int, user: int) -> Process | None:
        """Return the process of this pid and user that has reported before."""
        with self._lock:
            found = self._by_pid.get(pid)
            return found if found and found.user == user else None

    def forget(self, counted: Iterable[Reporter]) -> None:
        """Forget ended processes, except those that have reported since: their last report counts."""
        with self._lock:
            gone = [each.process for each in counted if self._entries.get(each.process) is each]
            for process in gone:
                self._leave_process(process)
            if len(self._buckets) > REPORTERS:
                self._buckets = {each: self._buckets[each] for each in self._places if each in self._buckets}

    def _enter_reporter(self, reporter: Reporter) -> None:
        process = reporter.process
        self._places[_account_of(process)] += 1
        self._entries[process] = reporter

    def _leave_process(self, process: Process) -> None:
        account = _account_of(process)
        del self._entries[process]
        if self._by_pid.get(process.pid) == process:
            del self._by_pid[process.pid]
        self._places[account] -= 1
        if self._places[account] <= 0:
            del self._places[account]
            self._buckets.pop(account, None)

    def all(self) -> tuple[Reporter, ...]:
        with self._lock:
            return tuple(self._entries.values())

    def results(self) -> Mapping[str, int]:
        """Return the number of reports by result."""
        with self._lock:
            return dict(self._results)


def of_user(user: int) -> str:
    """Return the account of a user id that the user cannot choose."""
    return f"user {user}"


def _account_of(process: Process) -> str:
    return process.account or of_user(process.user)
