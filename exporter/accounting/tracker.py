"""Make allocations and hours of sampling cycles: begin, end, GPU time received, and time not observed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from exporter.accounting.counters import OwnerCounters, Sums
from exporter.accounting.model import (
    HOUR_SECONDS,
    Allocation,
    Amount,
    Batch,
    Cycle,
    HourKey,
    HourRow,
    Kind,
    Place,
    Stored,
    Usage,
)
from exporter.attribution.families import label_names
from exporter.attribution.owner import NOBODY, Owner, WorkloadInfo
from exporter.core.clock import NEVER, MonotonicTime

WRITE_SECONDS = 10.0
"""Seconds between two batches while nothing ends."""
RESTORE_SECONDS = 60.0
"""Seconds after the start in which the sources may not have reported yet: what is not seen by then has ended."""
_MEMORY_SECONDS = 86400.0
"""Seconds in which an ended allocation can come back: its source was silent, and it had not ended."""
_SAME_START_SECONDS = 2.0
"""Two sources may report the start of one allocation so far apart."""
_UNOBSERVED = "unobserved"

Identity = tuple[str, ...]


@dataclass(slots=True)
class _Entry:
    """An allocation and the part of it that still changes."""

    allocation: Allocation
    kind: Kind
    until: float
    """Unix seconds up to which it is accounted."""
    cycle: int = -1
    """Number of the cycle that saw it last."""
    gpus: dict[Place, float] = field(default_factory=dict[Place, float])
    """GPUs by model and profile, as seen last."""
    hours: dict[HourKey, tuple[Sums, float]] = field(default_factory=dict[HourKey, "tuple[Sums, float]"])
    """Amounts of the current hour and of hours not yet written, with the time they reach to."""


class AllocationTracker:
    """Belongs to the thread of the cycles. Reads and writes nothing."""

    def __init__(self, stored: Stored, counters: OwnerCounters | None = None) -> None:
        self._born = stored.born
        self._counters = counters or OwnerCounters(tuple(stored.counters))
        self._entries = dict(_restore_entries(stored))
        self._changed: dict[str, _Entry] = {}
        self._cycle = 0
        self._started: MonotonicTime | None = None
        self._written = NEVER
        self._urgent = False

    @property
    def merged_owners(self) -> int:
        """Number of owners counted as `other`."""
        return len(self._counters.merged)

    def account_cycle(self, cycle: Cycle) -> Batch | None:
        """Account for one cycle. Return what to write: at each end, else every ten seconds."""
        self._cycle += 1
        if self._started is None:
            self._started = cycle.at.monotonic
        for owner, rows in _by_owner(cycle.usage).items():
            self._account_owner(owner, rows, cycle)
        self._end_unseen(cycle)
        if not self._urgent and cycle.at.monotonic - self._written < WRITE_SECONDS:
            return None
        self._urgent, self._written = False, cycle.at.monotonic
        self._counters.forget_owners(float(cycle.at.unix))
        return self._take_batch(float(cycle.at.unix))

    def last_batch(self, now: float) -> Batch:
        """Return the last batch of this process."""
        return self._take_batch(now)

    def _account_owner(self, owner: Owner, rows: Collection[Usage], cycle: Cycle) -> None:
        now = float(cycle.at.unix)
        info = cycle.ownership.info.get(owner, WorkloadInfo())
        kind = Kind(info.qos, cycle.classes.get(owner, ""), self._find_pool(owner, info, cycle))
        entry = self._find_entry(owner, info, kind, cycle)
        entry.kind = kind
        seen = entry.cycle == self._cycle - 1
        begin = now - cycle.seconds
        first = entry.until if not seen and begin < entry.until <= now else begin
        entry.gpus = _gpus_by_place(rows, cycle.models)
        entry.allocation = _describe_allocation(entry, owner, info, rows)
        if not seen:
            self._account_unseen(entry, min(begin, now))
        part = (now - first) / cycle.seconds if cycle.seconds > 0 else 0.0
        for row in rows:
            place = Place(cycle.models.get(row.gpu, ""), row.profile)
            seconds = cycle.seconds * part
            states = {state: ratio * seconds for state, ratio in row.states.items() if ratio and seconds}
            self._add_hours(entry, place, first, now, Amount(states, row.used, row.joules))
        entry.until, entry.cycle = now, self._cycle
        self._changed[entry.allocation.id] = entry

    def _find_pool(self, owner: Owner, info: WorkloadInfo, cycle: Cycle) -> str:
        if owner != NOBODY:
            return owner.partition or dict(info.pod_labels).get("pool", "")
        known = self._entries.get(_identity_of(owner))
        return cycle.pool if cycle.pool is not None else known.kind.pool if known else ""

    def _find_entry(self, owner: Owner, info: WorkloadInfo, kind: Kind, cycle: Cycle) -> _Entry:
        """Return the allocation of the owner: the known one, unless its source reports a later start."""
        now, known = float(cycle.at.unix), self._entries.get(_identity_of(owner))
        start = None if info.start_time is None else float(info.start_time)
        # Rows of an hour that is over are final: where the clock is set back to it, another allocation begins.
        set_back = known is not None and now // HOUR_SECONDS < known.until // HOUR_SECONDS
        if known is not None and not set_back and self._is_same(known, owner, kind, start, cycle.seconds):
            if known.allocation.reported_start is None and start is not None:
                known.allocation = replace(known.allocation, reported_start=start)
            known.allocation = replace(known.allocation, end=None)
            return known
        if known is not None and known.allocation.end is None:
            self._end_allocation(known, known.until if set_back else min(known.until, start or known.until))
        begin = now - cycle.seconds
        reported = start is not None and owner != NOBODY and not set_back
        began = min(max(start or 0.0, self._born), now) if reported else begin
        name = hashlib.sha256("\0".join(_identity_of(owner)).encode(errors="replace")).hexdigest()[:12]
        allocation = Allocation(f"{began:.3f}-{name}", owner, began, reported_start=start)
        entry = self._entries[_identity_of(owner)] = _Entry(allocation, kind, began)
        if owner != NOBODY:
            first = next(row for row in cycle.usage if row.owner == owner)
            self._counters.count_allocation(owner, kind, Place(cycle.models.get(first.gpu, ""), first.profile), now)
            self._urgent = True
        return entry

    def _is_same(self, known: _Entry, owner: Owner, kind: Kind, start: float | None, seconds: float) -> bool:
        before = known.allocation.reported_start
        if owner == NOBODY:  # what was free in another pool keeps its price
            return known.kind.pool == kind.pool
        if start is None and known.cycle == self._cycle - 1 and known.allocation.end is None:
            return True
        if start is None or before is None:
            return known.cycle == self._cycle - 1 and known.allocation.end is None
        return start - before <= _SAME_START_SECONDS or start < known.until - max(seconds, 1.0)

    def _account_unseen(self, entry: _Entry, until: float) -> None:
        """Account for the time in which it was allocated, but not seen: nobody observed the GPUs."""
        if entry.allocation.owner != NOBODY:
            for place, gpus in entry.gpus.items():
                seconds = gpus * max(0.0, until - entry.until)
                if seconds:
                    self._add_hours(entry, place, entry.until, until, Amount({_UNOBSERVED: seconds}))
        entry.until = max(entry.until, until)

    def _end_unseen(self, cycle: Cycle) -> None:
        """End what is not seen any more."""
        now = float(cycle.at.unix)
        restoring = self._started is not None and cycle.at.monotonic - self._started < RESTORE_SECONDS
        for identity, entry in list(self._entries.items()):
            allocation = entry.allocation
            if allocation.end is not None:
                if now - allocation.end > _MEMORY_SECONDS:
                    del self._entries[identity]
                continue
            if entry.cycle == self._cycle or allocation.owner == NOBODY:
                continue
            end = cycle.ownership.ended.get(allocation.owner.source_id)
            if entry.cycle < 0 and end is None and restoring:
                continue
            if end is not None:
                self._end_allocation(entry, min(max(float(end), entry.until), now))
            elif entry.cycle < 0 or allocation.reported_start is None:
                self._end_allocation(entry, entry.until)
            else:  # between the last cycle with it and the first without
                self._end_allocation(entry, entry.until + min(cycle.seconds, max(0.0, now - entry.until)) / 2)

    def _end_allocation(self, entry: _Entry, end: float) -> None:
        self._account_unseen(entry, end)
        entry.allocation = replace(entry.allocation, end=end)
        self._changed[entry.allocation.id] = entry
        self._urgent = True

    def _add_hours(self, entry: _Entry, place: Place, begin: float, end: float, amount: Amount) -> None:
        """Add what was got from `begin` to `end`, each hour its part."""
        self._counters.add_amount(entry.allocation.owner, entry.kind, place, amount, end)
        for hour, part in hours_between(begin, end):
            key = HourKey(entry.allocation.id, hour, *place)
            sums, until = entry.hours.setdefault(key, (Sums(), 0.0))
            sums.add_part(amount, part)
            # The clock may have been set back: the service takes no row that reaches less far than before.
            entry.hours[key] = (sums, max(until, min(end, (hour + 1) * HOUR_SECONDS)))

    def _take_batch(self, now: float) -> Batch:
        hours: dict[HourKey, HourRow] = {}
        for entry in self._changed.values():
            for key, (sums, until) in entry.hours.items():
                hours[key] = HourRow(key, until, sums.amount)
            current = int(entry.until // HOUR_SECONDS)
            entry.hours = {key: each for key, each in entry.hours.items() if key.hour >= current}
        allocations = {name: entry.allocation for name, entry in self._changed.items()}
        self._changed = {}
        return Batch(now, allocations, hours, self._counters.counter_rows())


def _restore_entries(stored: Stored) -> Iterator[tuple[Identity, _Entry]]:
    hours: dict[str, list[HourRow]] = {}
    for row in stored.hours:
        hours.setdefault(row.key.allocation, []).append(row)
    for each in sorted(stored.allocations, key=lambda each: each.start):
        own = hours.get(each.id, [])
        entry = _Entry(
            each,
            Kind(
                each.details.get("priority", ""),
                each.details.get("class", ""),
                each.owner.partition or each.details.get("label_pool", ""),
            ),
            max([each.start, *(row.until for row in own)]),
        )
        entry.hours = {
            row.key: (Sums(dict(row.amount.states), row.amount.used, row.amount.joules), row.until) for row in own
        }
        seconds = {Place(row.key.model, row.key.profile): sum(row.amount.states.values()) for row in own}
        total = sum(seconds.values())
        entry.gpus = {place: each.gpus * part / total for place, part in seconds.items() if total}
        yield _identity_of(each.owner), entry


def _identity_of(owner: Owner) -> Identity:
    """Return what stays the same while labels are still being learnt."""
    return (owner.kind, owner.workload, owner.namespace, owner.pod, owner.container, owner.slurm_job)


def _by_owner(usage: Iterable[Usage]) -> Mapping[Owner, list[Usage]]:
    found: dict[Owner, list[Usage]] = {}
    for row in usage:
        found.setdefault(row.owner, []).append(row)
    return found


def _gpus_by_place(rows: Iterable[Usage], models: Mapping[str, str]) -> dict[Place, float]:
    found: dict[Place, float] = {}
    for row in rows:
        place = Place(models.get(row.gpu, ""), row.profile)
        found[place] = found.get(place, 0.0) + sum(row.states.values())
    return found


def _describe_allocation(entry: _Entry, owner: Owner, info: WorkloadInfo, rows: Collection[Usage]) -> Allocation:
    """Return the allocation with what is known of it now; what was known before stays."""
    before = entry.allocation
    if owner == NOBODY:
        return replace(before, details={"label_pool": entry.kind.pool} if entry.kind.pool else {})
    names = label_names([label for label, _ in info.pod_labels])
    facts = {
        "job_name": info.job_name,
        "priority": entry.kind.priority,
        "class": entry.kind.work_class,
        "part_of": info.part_of,
        "array_job": info.slurm_array_job,
        "array_task": info.slurm_array_task,
        **{names[label]: value for label, value in info.pod_labels},
    }
    gpus = round(sum(entry.gpus.values()), 9)
    return replace(
        before,
        owner=owner,
        gpus=max(before.gpus, gpus),
        devices=tuple(sorted({*before.devices, *(row.gpu for row in rows)})),
        details={**before.details, **{name: value for name, value in facts.items() if value}},
    )


def hours_between(begin: float, end: float) -> Iterator[tuple[int, float]]:
    """Yield the hours between two moments, each with its part of the time; the hour of `end` where it is none."""
    if end <= begin:
        yield int(end // HOUR_SECONDS), 1.0
        return
    hour = int(begin // HOUR_SECONDS)
    while hour * HOUR_SECONDS < end:
        inside = min(end, (hour + 1) * HOUR_SECONDS) - max(begin, hour * HOUR_SECONDS)
        if inside > 0:
            yield hour, inside / (end - begin)
        hour += 1
