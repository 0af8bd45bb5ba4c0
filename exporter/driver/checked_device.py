"""A device whose answers have been looked at: implausible ones are absent, and every loss is reported.

Whatever the driver answers passes here on its way to a collector. What is kept from read to read is in `Memory`, one
for each GPU or MIG instance, which outlives the device objects that each enumeration makes anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from exporter.clock import MonotonicTime
from exporter.driver.interface import Device, Record, UnsupportedError
from exporter.driver.plausibility import (
    FIELDS,
    FUNCTIONS,
    GPM_MEBIBYTES_PER_SECOND,
    GPM_PERCENT,
    GPM_RATES,
    Followed,
    Range,
    Rule,
    Shape,
    follow,
)

ACCEPTED_AFTER = 300.0
"""Seconds after which a reading that was there and is refused since counts as one that the device does not have."""
LARGEST_PID = 1 << 22
"""The kernel's own limit (PID_MAX_LIMIT)."""
LARGEST_MEMORY = 1 << 50

Key = tuple[Any, ...]
"""Function and arguments; for a field its id and scope too; for a part of an answer its name."""

_FIELDS = "nvmlDeviceGetFieldValues"
_LISTS = frozenset(
    {
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
    }
)


Judge = Callable[["CheckedDevice", Key, Any], Any]
"""Looks at one answer: the device that gave it, what was asked, and the answer."""
_GPM = tuple((rule.lowest, rule.highest) for rule in (GPM_PERCENT, GPM_MEBIBYTES_PER_SECOND))
"""Bounds of a percentage, and of a rate."""


class ImplausibleError(UnsupportedError):
    """The driver answered, and the answer cannot be true: as good as none."""

    code = "IMPLAUSIBLE"


@dataclass(slots=True)
class Memory:
    """What one device answered before. Used by one thread at a time."""

    counters: dict[Key, Followed] = field(default_factory=dict[Key, Followed])
    answered: set[Key] = field(default_factory=set[Key])
    refused: dict[Key, tuple[str, MonotonicTime]] = field(default_factory=dict[Key, tuple[str, MonotonicTime]])
    """What had been answered and is refused now: by which collector it was asked, and since when."""


@dataclass(frozen=True, slots=True)
class Losses:
    """What one collector did not get in one read: how many answers were implausible, and in words what is missing."""

    rejected: int = 0
    words: str = ""


_NO_LOSSES = Losses()


class CheckedDevice(Device):
    """`device` as the collectors see it, one after the other, in one read at `monotonic` seconds."""

    def __init__(self, device: Device, memory: Memory, monotonic: MonotonicTime) -> None:
        self._device = device
        self._memory = memory
        self._collector = ""
        self._now = monotonic
        self._rejected: list[str] = []
        self.index, self.uuid, self.pci_bus_id, self.minor = device.index, device.uuid, device.pci_bus_id, device.minor
        self.parent_uuid, self.mig = device.parent_uuid, device.mig
        self.instances = device.instances

    def asked_by(self, collector: str) -> None:
        """From now on this collector reads; what the one before lost is forgotten."""
        self._collector = collector
        if self._rejected:
            self._rejected = []

    def losses(self) -> Losses:
        """To be asked once the collector has read: what was lost in this read, or is refused for a while already."""
        if not self._rejected and not self._memory.refused:
            return _NO_LOSSES
        late = [
            f"{key[0]} is not answered any more"
            for key, (collector, since) in self._memory.refused.items()
            if collector == self._collector and self._now - since < ACCEPTED_AFTER
        ]
        words = [*self._rejected, *dict.fromkeys(late)]
        return Losses(len(self._rejected), "; ".join(words[:3])) if words else Losses()

    def call(self, function: str, *args: Any) -> Any:
        if function == _FIELDS:
            return self._fields(args[0])
        key = (function, *args) if function in FUNCTIONS else _key(function, args)
        try:
            answer = self._device.call(function, *args)
        except UnsupportedError:
            self._refuse(key)
            raise
        memory = self._memory
        if memory.refused:
            memory.refused.pop(key, None)
        memory.answered.add(key)
        judge = _JUDGES.get(function)
        return answer if judge is None else judge(self, key, answer)

    def number(self, key: Key, number: float, rule: Rule) -> float:
        """The number as it is believed. Raises ImplausibleError."""
        believed = self._believed(key, number, rule)
        if believed is None:
            raise ImplausibleError(str(key[0]))
        return believed

    def record(self, key: Key, answer: Any, shape: Mapping[str, Rule]) -> Any:
        """The struct with its counters as they are believed. Raises ImplausibleError."""
        for name, rule in shape.items():
            number = getattr(answer, name, None)
            part = (*key, name)
            if number is None:
                self._refuse(part)
                continue
            self._accept(part)
            believed = self.number(part, number, rule)
            if believed != number:
                setattr(answer, name, believed)
        if key[0] == "nvmlDeviceGetMemoryInfo" and (answer.used or 0) > answer.total:
            self._reject(key, f"{answer.used} bytes used of {answer.total}")
            raise ImplausibleError(str(key[0]))
        return answer

    def processes(self, key: Key, answer: Sequence[Record]) -> Sequence[Record]:
        """Without those that cannot be."""
        good = tuple(_processes(answer))
        if len(good) < len(answer):
            self._reject(key, "processes that cannot be")
        return good

    def metrics(self, _key: Key, answer: Mapping[int, float]) -> Mapping[int, float]:
        """Without those that cannot be. Not a number is GPM's word for no data."""
        bad = [
            id_
            for id_, number in answer.items()
            if number == number and not _GPM[id_ in GPM_RATES][0] <= number <= _GPM[id_ in GPM_RATES][1]  # noqa: PLR0124
        ]
        for id_ in bad:
            self._reject((f"GPM metric {id_}",), answer[id_])
        return {id_: number for id_, number in answer.items() if id_ not in bad} if bad else answer

    def _accept(self, key: Key) -> None:
        memory = self._memory
        if memory.refused:
            memory.refused.pop(key, None)
        memory.answered.add(key)

    def _refuse(self, key: Key) -> None:
        memory = self._memory
        if key not in memory.answered:
            return
        _, since = memory.refused.setdefault(key, (self._collector, self._now))
        if self._now - since >= ACCEPTED_AFTER:
            memory.answered.discard(key)
            del memory.refused[key]

    def _reject(self, key: Key, number: object) -> None:
        self._rejected.append(f"{key[0]} answered {str(number)[:40]}, which is implausible")

    def _believed(self, key: Key, number: float, rule: Rule) -> float | None:
        if rule.lowest <= number <= rule.highest:
            if isinstance(rule, Range):
                return number
            counters = self._memory.counters
            followed, good = follow(counters.get(key), number, self._now, rule)
            counters[key] = followed
            if good:
                return followed.value if followed.excess else number
        self._reject(key, number)
        return None

    def _fields(self, wanted: Sequence[tuple[int, int]]) -> tuple[float | None, ...]:
        """A call that is refused as a whole refuses each of its fields: collectors ask for several batches."""
        try:
            answer: Sequence[float | None] = self._device.call(_FIELDS, wanted)
        except UnsupportedError:
            for field_ in wanted:
                self._refuse(_field_rule(field_)[0])
            raise
        memory, found = self._memory, list(answer)
        for place, (key, rule) in enumerate(_field_rules(tuple(wanted))):
            number = found[place]
            if number is None:
                self._refuse(key)
                continue
            if memory.refused:
                memory.refused.pop(key, None)
            memory.answered.add(key)
            if rule is not None:
                found[place] = self._believed(key, number, rule)
        return tuple(found)


def _key(function: str, args: tuple[Any, ...]) -> Key:
    """What distinguishes a reading that is not judged from another: the call without cursors that change."""
    return (function, args[0]) if function == "nvmlDeviceGetSamples" else (function,)


@lru_cache(maxsize=1024)
def _field_rules(wanted: tuple[tuple[int, int], ...]) -> Sequence[tuple[Key, Rule | None]]:
    return tuple([_field_rule(each) for each in wanted])


def _field_rule(field: tuple[int, int]) -> tuple[Key, Rule | None]:
    return (f"field {field[0]}", field[1]), FIELDS.get(field[0])


def _processes(answer: Sequence[Record]) -> Iterator[Record]:
    for each in answer:
        record = cast("Any", each)
        if 0 < record.pid <= LARGEST_PID:
            memory = record.usedGpuMemory
            record.usedGpuMemory = memory if memory is None or memory <= LARGEST_MEMORY else None
            yield each


def _judge(shape: Shape) -> Judge:
    """What looks at the answers of one function, made once."""
    if isinstance(shape, tuple):
        rules = shape
        return lambda device, key, answer: tuple(
            [device.number((*key, place), *pair) for place, pair in enumerate(zip(answer, rules, strict=False))]
        )
    if isinstance(shape, Mapping):
        fields = shape
        return lambda device, key, answer: device.record(key, answer, fields)
    rule = shape
    return lambda device, key, answer: (
        device.record(key, answer, dict.fromkeys(vars(answer), rule))
        if type(answer) is Record
        else device.number(key, answer, rule)
    )


_JUDGES: Mapping[str, Judge] = {
    **{function: _judge(shape) for function, shape in FUNCTIONS.items()},
    **dict.fromkeys(_LISTS, CheckedDevice.processes),
    "nvmlGpmMetricsGet": CheckedDevice.metrics,
}
