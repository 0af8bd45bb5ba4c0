"""Writes batches beside the sampling cycles: a disk that hangs or fails costs no cycle and shows in the health."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path

from exporter.accounting.model import (
    AccountingStatus,
    Allocation,
    Batch,
    CounterRow,
    Cycle,
    HourKey,
    HourRow,
    Stored,
    WriterHealth,
)
from exporter.accounting.store import STORE_ERRORS, AccountingStore
from exporter.accounting.tracker import AllocationTracker
from exporter.core.clock import MonotonicClock, MonotonicTime, UnixClock, monotonic_time, unix_time
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

MAX_WAITING_ROWS = 20_000
"""Rows that wait for the disk; the oldest above that are dropped, and counted."""
LATE_SECONDS = 60.0
"""Age of the last write from which on counters are published that are not on disk."""
RETENTION_SECONDS = 7 * 86400.0
"""Seconds that ended allocations stay for the accounting service to collect them."""
_FORGET_INTERVAL_SECONDS = 3600.0


class Writer:
    """Keeps the newest of each row until it is written. `path` None keeps nothing on disk."""

    def __init__(
        self,
        path: Path | None,
        *,
        memory_id: str = "",
        unix: UnixClock = unix_time,
        clock: MonotonicClock = monotonic_time,
        open_store: Callable[[Path, float], AccountingStore] = AccountingStore,
    ) -> None:
        """`memory_id` names the store of a node that keeps nothing on disk."""
        self._path = path
        self._unix = unix
        self._clock = clock
        self._open_store = open_store
        self._wake = threading.Condition()
        self._allocations: dict[str, Allocation] = {}
        self._hours: dict[HourKey, HourRow] = {}
        self._offered: tuple[CounterRow, ...] = ()
        self._written: tuple[CounterRow, ...] = ()
        self._new = False
        self._stopped = False
        self._store: AccountingStore | None = None
        self._success: bool | None = None
        self._at = clock()
        self._forgot: MonotonicTime | None = None
        self._dropped = 0
        now = float(unix())
        self.stored = self._load_stored(now) or Stored(memory_id, now)
        self._written = tuple(self.stored.counters)

    def start(self, threads: Threads) -> None:
        if self._path:
            threads.start("accounting", self.run)

    def offer_batch(self, batch: Batch) -> None:
        """Queue a batch. Never waits for the disk."""
        with self._wake:
            self._offered = tuple(batch.counters)
            if self._path is None:
                return
            self._allocations |= batch.allocations
            self._hours |= batch.hours
            for key in list(islice(self._hours, max(0, len(self._hours) - MAX_WAITING_ROWS))):
                del self._hours[key]
                self._dropped += 1
            self._new = True
            self._wake.notify_all()

    @property
    def counters(self) -> tuple[CounterRow, ...]:
        """The counters on disk: a restart never takes one of them back. While the disk fails for long, the newest."""
        with self._wake:
            late = self._path is None or self._clock() - self._at > LATE_SECONDS
            return self._offered if late and self._offered else self._written

    @property
    def health(self) -> WriterHealth:
        with self._wake:
            if self._path is None:
                return WriterHealth()
            age = max(0.0, self._clock() - self._at)
            return WriterHealth(self._success is True, age, len(self._hours), self._dropped)

    def stop(self) -> None:
        """Ask for a last write; it is not waited for."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    def run(self) -> None:
        """Write what is offered until stopped."""
        while True:
            with self._wake:
                while not self._new and not self._stopped:
                    self._wake.wait()
                ending = self._stopped
            self.write_once()
            if ending:
                return

    def write_once(self) -> None:
        """Write what waits, in the caller's thread. What fails waits for the next batch."""
        with self._wake:
            batch = Batch(0.0, self._allocations, self._hours, self._offered)
            self._allocations, self._hours, self._new = {}, {}, False
        if self._path is None or not (batch.hours or batch.allocations):
            return
        try:
            self._write_batch(self._path, batch)
        except STORE_ERRORS as error:
            self._keep_failed(batch, error)
        else:
            with self._wake:
                self._written, self._success, self._at = tuple(batch.counters), True, self._clock()

    def _write_batch(self, path: Path, batch: Batch) -> None:
        if self._store is None:
            self._store = self._open_store(path, float(self._unix()))
        self._store.write_batch(batch)
        now = self._clock()
        if self._forgot is None or now - self._forgot >= _FORGET_INTERVAL_SECONDS:
            self._forgot = now
            self._store.delete_before(float(self._unix()) - RETENTION_SECONDS)

    def _keep_failed(self, batch: Batch, error: Exception) -> None:
        if self._success is not False:
            log.warning("accounting is not written (--state.dir): %s", error)
        if self._store is not None:
            self._store.close()
            self._store = None
        with self._wake:
            self._success = False
            self._allocations = {**batch.allocations, **self._allocations}
            self._hours = {**batch.hours, **self._hours}

    def _load_stored(self, now: float) -> Stored | None:
        """Return what the file has. A file that cannot be opened now is tried again with each write."""
        if self._path is None:
            return None
        try:
            self._store = self._open_store(self._path, now)
            return self._store.load_recent()
        except STORE_ERRORS:
            return None  # the first write fails as well, and is logged


class NodeAccounting:
    """`account_cycle` belongs to the thread of the cycles."""

    def __init__(self, path: Path | None, *, memory_id: str = "", unix: UnixClock = unix_time) -> None:
        """`path` None keeps the accounting in memory; `memory_id` is the id of its store then."""
        self._writer = Writer(path, memory_id=memory_id, unix=unix)
        self._tracker = AllocationTracker(self._writer.stored)
        self._now = 0.0

    def start(self, threads: Threads) -> None:
        self._writer.start(threads)

    def stop(self) -> None:
        self._writer.offer_batch(self._tracker.last_batch(self._now))
        self._writer.stop()

    def account_cycle(self, cycle: Cycle) -> AccountingStatus:
        """Account for one cycle, and return what is shown."""
        self._now = float(cycle.at.unix)
        batch = self._tracker.account_cycle(cycle)
        if batch:
            self._writer.offer_batch(batch)
        return AccountingStatus(
            self._writer.stored.id, self._writer.counters, self._writer.health, self._tracker.merged_owners
        )
