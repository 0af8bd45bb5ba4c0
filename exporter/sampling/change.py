"""The seconds before a change: booked as what they were, and not as what came after them. Pure.

After looks that found nothing new comes a pass that covers several seconds. Where its own look found a change, it lies
in the last of them: until the look before it, all was as in the last pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from exporter.attribution.owner import Owner
from exporter.core.clock import UnixTime
from exporter.core.record import record
from exporter.core.units import Joules
from exporter.ledger.account import Counted, LedgerInput, Reading
from exporter.ledger.evidence import Signals

_MEANS = (
    "busy",
    "sm_active",
    "tensor_active",
    "dram_active",
    "vector_active",
    "memory_activity",
    "link_activity",
    "throttled_thermal",
    "throttled_power_brake",
)
"""Signals that are means over the pass."""


@record
class Calm:
    """The time before a change: `seconds` of it, of the `whole` that the pass covers."""

    seconds: float
    whole: float


def holders(each: LedgerInput) -> Sequence[tuple[str, Sequence[Owner]]]:
    """Who holds what."""
    return [(reading.target.uuid, [holding.owner for holding in reading.holdings]) for reading in each.readings]


def until(last: LedgerInput, calm: Calm, end: UnixTime) -> LedgerInput:
    """The last pass once more, as long as nothing changed; `end` is when that was."""
    readings = tuple([_as_before(each, calm.seconds, last.seconds) for each in last.readings])
    return replace(last, time=end, seconds=calm.seconds, unseen=0.0, readings=readings)


def possible(first: LedgerInput, now: LedgerInput, calm: Calm) -> LedgerInput:
    """`first` as far as the whole pass has room for it: loads go up and down, and both parts are what was counted."""
    known = {each.target.uuid: each for each in now.readings}
    readings = tuple([_possible(each, known.get(each.target.uuid), calm) for each in first.readings])
    return replace(first, readings=readings)


def since(now: LedgerInput, booked: LedgerInput, calm: Calm) -> LedgerInput:
    """What is left of the pass after `booked`."""
    before = {each.target.uuid: each for each in booked.readings}
    readings = tuple([_less(each, before.get(each.target.uuid), calm) for each in now.readings])
    return replace(now, seconds=calm.whole - calm.seconds, readings=readings)


def _as_before(reading: Reading, seconds: float, covered: float) -> Reading:
    joules = Joules(reading.joules * seconds / covered) if covered > 0 else Joules(0.0)
    return replace(reading, joules=joules, counted=None)


def _possible(reading: Reading, whole: Reading | None, calm: Calm) -> Reading:
    if whole is None or whole.signals is None or reading.signals is None:
        return reading
    room = calm.whole - calm.seconds
    bounded: Mapping[str, float] = {
        name: min(max(begun, (mean * calm.whole - room) / calm.seconds), mean * calm.whole / calm.seconds)
        for name in _MEANS
        for mean, begun in _both(whole.signals, reading.signals, name)
    }
    joules = Joules(min(reading.joules, max(0.0, whole.joules)))
    return replace(reading, signals=replace(reading.signals, **bounded), joules=joules)


def _less(reading: Reading, before: Reading | None, calm: Calm) -> Reading:
    if before is None:
        return reading
    busy = before.signals.busy if before.signals else None
    counted = reading.counted
    if counted is not None and busy is not None:
        counted = Counted(max(0.0, counted.busy - busy * calm.seconds), max(0.0, counted.seconds - calm.seconds))
    return replace(
        reading,
        signals=_rest(reading.signals, before.signals, calm),
        joules=Joules(max(0.0, reading.joules - before.joules)),
        counted=counted,
    )


def _rest(mean: Signals | None, before: Signals | None, calm: Calm) -> Signals | None:
    """What the end of the pass was, where its mean over all and its beginning are known."""
    if mean is None or before is None:
        return mean
    rest: Mapping[str, float] = {
        name: min(1.0, max(0.0, (whole * calm.whole - begun * calm.seconds) / (calm.whole - calm.seconds)))
        for name in _MEANS
        for whole, begun in _both(mean, before, name)
    }
    return replace(mean, **rest)


def _both(mean: Signals, before: Signals, name: str) -> Sequence[tuple[float, float]]:
    whole, begun = getattr(mean, name), getattr(before, name)
    return [] if whole is None or begun is None else [(whole, begun)]
