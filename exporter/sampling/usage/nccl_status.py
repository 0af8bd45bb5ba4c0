"""NCCL's own report on the workloads that seem to hang in a collective. Asked on suspicion only."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from exporter.attribution.background_source import BackgroundSource, SourceError
from exporter.attribution.owner import OWNER_LABELS, Owner, SourceHealth
from exporter.config.kinds import boolean
from exporter.config.option import option
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.families import NODE, Family, Sample, Unit, gauges, info
from exporter.core.threads import Threads
from exporter.host import namespace, network
from exporter.host.nccl_ras import ADDRESS, ANSWER_TIMEOUT_SECONDS, Operations, Rank, RasAnswer, RasError, ask
from exporter.host.text import lines, natural, read_text

log = logging.getLogger(__name__)

SOURCE = "nccl_ras"
_FIRST_INTERVAL_SECONDS = 15.0
"""Seconds between the first and the second question to a workload: what moved in between does not hang."""
_LATER_INTERVAL_SECONDS = 60.0
"""Seconds between later ones, as long as it seems to hang."""
_MAX_WORKLOADS = 8
"""Asked in one round."""
_MAX_RANKS = 16
"""Shown of one workload."""
_DENIED = frozenset({errno.EPERM, errno.EACCES})

VERDICTS = {
    "rank_lags": "some ranks launched fewer collectives than others: these wait for them",
    "rank_missing": "some ranks do not answer their peers: they ended, or their host hangs",
    "in_step": "all ranks launched the same collectives, and none goes on: a kernel that spins, or the network",
    "moving": "collectives go on: nothing hangs",
    "no_answer": "nothing of this workload answers on the RAS port",
}


@dataclass(frozen=True, kw_only=True)
class NcclConfig:
    """`--nccl.*`."""

    ras: bool = option(
        "false",
        boolean,
        "Ask the NCCL of a job that seems to hang (2.24 and newer) which rank lags; needs CAP_SYS_ADMIN and "
        "CAP_SYS_PTRACE where jobs have networks of their own.",
    )


@dataclass(frozen=True, slots=True)
class NcclStatus:
    """`ranks` are those the others wait for."""

    verdict: str
    ranks: tuple[Rank, ...] = ()


@dataclass(frozen=True, slots=True)
class _LastAnswer:
    queries: int
    at: MonotonicTime
    operations: Operations
    status: NcclStatus


Statuses = Mapping[Owner, NcclStatus]


_NO_OPERATIONS: Operations = {}


def verdict_of(answer: RasAnswer, before: Operations = _NO_OPERATIONS) -> NcclStatus:
    """`before` are the operations launched when it was asked last."""
    if any(before.get(rank, launched) != launched for rank, launched in answer.operations.items()):
        return NcclStatus("moving")
    lagging = [each.lagging for each in answer.communicators if each.lagging]
    missing = [each.missing for each in answer.communicators if each.missing]
    for verdict, found in (("rank_missing", missing), ("rank_lags", lagging)):
        if found:
            ranks = {rank.rank: rank for each in found for rank in each if rank.rank >= 0}
            return NcclStatus(verdict, tuple(ranks.values())[:_MAX_RANKS])
    return NcclStatus("in_step")


class NcclReader:
    """`statuses` never waits: questions are put by a thread of its own, one after the other."""

    def __init__(
        self,
        procfs: Path = Path("/proc"),
        address: tuple[str, int] = ADDRESS,
        clock: MonotonicClock = monotonic_time,
        put: Callable[[tuple[str, int], Callable[[RasAnswer], bool]], RasAnswer] = ask,
    ) -> None:
        self._procfs = procfs
        self._address = address
        self._clock = clock
        self._put = put
        self._suspects: Mapping[Owner, Sequence[int]] = {}
        self._known: Mapping[Owner, _LastAnswer] = {}
        self._source: BackgroundSource[int] = BackgroundSource(
            self._ask_round, 0, name="nccl-ras", interval=lambda _: _FIRST_INTERVAL_SECONDS, clock=clock
        )

    def start(self, threads: Threads) -> None:
        self._source.start(threads)

    def stop(self) -> None:
        self._source.stop()

    def health(self) -> SourceHealth:
        return self._source.health(SOURCE, self._clock())

    def statuses(self, suspects: Mapping[Owner, Sequence[int]]) -> Statuses:
        """Return what is known of these workloads, by their GPU processes; others are not asked."""
        new = suspects.keys() - self._suspects.keys()
        self._suspects = suspects
        if new:
            self._source.wake()
        return {owner: known.status for owner, known in self._known.items() if owner in suspects}

    def _ask_round(self) -> int:
        """Raises SourceError where this program is kept from asking at all."""
        suspects, now = self._suspects, self._clock()
        known = {owner: each for owner, each in self._known.items() if owner in suspects}
        due = [owner for owner in suspects if self._is_due(known.get(owner), now)][:_MAX_WORKLOADS]
        denied = ""
        for owner in due:
            before = known.get(owner)
            try:
                answer = self._answer(suspects[owner])
            except OSError as error:
                denied = denied or f"{owner.workload}: {error.strerror or error} (needs CAP_SYS_ADMIN, CAP_SYS_PTRACE)"
                continue
            status = (
                verdict_of(answer, before.operations if before else _NO_OPERATIONS)
                if answer
                else NcclStatus("no_answer")
            )
            queries = before.queries + 1 if before else 1
            known[owner] = _LastAnswer(queries, now, answer.operations if answer else _NO_OPERATIONS, status)
            log.info("NCCL of %s: %s", owner.workload, status.verdict)
        self._known = known
        if denied:
            raise SourceError(denied)
        return len(due)

    def _is_due(self, known: _LastAnswer | None, now: MonotonicTime) -> bool:
        return known is None or now - known.at >= (
            _FIRST_INTERVAL_SECONDS if known.queries == 1 else _LATER_INTERVAL_SECONDS
        )

    def _answer(self, pids: Sequence[int]) -> RasAnswer | None:
        """Ask one of the processes. Raises OSError if its network namespace may not be entered."""
        if not pids:
            return None
        try:
            mine = self._answer_filter(pids)
            work = partial(self._put, self._address, mine)
            answer = namespace.run_in_network_namespace(self._procfs, pids[0], work, ANSWER_TIMEOUT_SECONDS + 1.0)
        except RasError as error:
            log.debug("NCCL's RAS port of process %d: %s", pids[0], error)
            return None
        except OSError as error:
            if error.errno in _DENIED:
                raise
            return None
        return answer if mine(answer) else None

    def _answer_filter(self, pids: Sequence[int]) -> Callable[[RasAnswer], bool]:
        """Return what recognises its answers.

        On this program's network, or the node's, any account can listen on the port. There an answer must name one of
        the processes, and come from a process of their user.
        """
        its, nodes = (network.namespace(self._procfs, each) for each in (pids[0], 1))
        alone = its is not None and its != nodes and not namespace.shares_network_namespace(self._procfs, pids[0])
        names = {*pids, *self._status_numbers(pids, "NSpid:", 1)}  # here and in their own pid namespaces
        users = set(self._status_numbers(pids, "Uid:", 1, 3))  # real and effective
        return lambda answer: alone or (bool(answer.pids & names) and answer.user in users)

    def _status_numbers(self, pids: Sequence[int], field: str, begin: int, end: int | None = None) -> Iterator[int]:
        """Yield numbers from a field of /proc/PID/status of each process."""
        for pid in pids:
            for line in lines(read_text(f"{self._procfs}/{pid}/status")):
                words = line.split()[begin:end] if line.startswith(field) else ()
                yield from (number for word in words if (number := natural(word)) is not None)


def _rank_samples(statuses: Statuses) -> Iterable[Sample]:
    for owner, status in statuses.items():
        for rank in status.ranks:
            pid = "" if rank.pid is None else str(rank.pid)
            yield Sample(1, (*owner.labels, str(rank.rank), rank.host, rank.gpu, pid))


NCCL_FAMILIES: tuple[Family[Statuses], ...] = (
    gauges(
        "gpu_workload_nccl_status",
        "NCCL's verdict on a workload that seems to hang in a collective: 1 for the verdict; absent otherwise.",
        Unit.NONE,
        lambda statuses: (Sample(1, (*owner.labels, each.verdict)) for owner, each in statuses.items()),
        (*OWNER_LABELS, "verdict"),
        NODE,
    ),
    info(
        "gpu_workload_nccl_lagging_rank_info",
        "A rank that the collectives of the workload wait for, by NCCL: on which host, GPU of it, and process.",
        _rank_samples,
        (*OWNER_LABELS, "rank", "host", "host_gpu", "pid"),
        NODE,
    ),
)
