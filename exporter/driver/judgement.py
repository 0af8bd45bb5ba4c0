"""How the answers to one call are looked at, made once for each call of a device together with the call itself.

A judge takes an answer and gives what is believed of it. It raises ImplausibleError where nothing of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from exporter.core.clock import MonotonicTime
from exporter.driver.interface import GPM_SECONDS, Call, Record, UnsupportedError
from exporter.driver.plausibility import (
    ANYTHING,
    FUNCTIONS,
    GPM_MEBIBYTES_PER_SECOND,
    GPM_PERCENT,
    GPM_RATES,
    Anything,
    Followed,
    Growth,
    Range,
    Rule,
    Shape,
)

LARGEST_PID = 1 << 22
"""The kernel's own limit (PID_MAX_LIMIT)."""
LARGEST_MEMORY = 1 << 50

Key = tuple[Any, ...]
"""Function and arguments; for a part of an answer its name too."""
Judge = Callable[[Any], Any]

_GPM = tuple((rule.lowest, rule.highest) for rule in (GPM_PERCENT, GPM_MEBIBYTES_PER_SECOND))
"""Bounds of a percentage, and of a rate."""
FIELD = "field"
"""Begins the key of a field; its id and scope follow."""
_MEMORY = "nvmlDeviceGetMemoryInfo"
_LISTS = frozenset(
    {
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
        "nvmlDeviceGetMPSComputeRunningProcesses",
    }
)


_LINK = frozenset(
    f"nvmlDeviceGet{which}PcieLink{what}" for which in ("Curr", "Max") for what in ("Generation", "Width")
)
"""Calls whose 0 means that there is none: a link has lanes. Some guests answer so, and GPUs not connected by PCIe."""


class ImplausibleError(UnsupportedError):
    """The driver answered, and the answer cannot be true: as good as none."""

    code = "IMPLAUSIBLE"


class History:
    """What is known of one answer, or of one number in it, from read to read."""

    __slots__ = ("_key", "answered", "rule")

    def __init__(self, key: Key, rule: Rule | None = None) -> None:
        self._key = key
        self.answered = False
        """Whether it was ever there."""
        self.rule: Range | Followed | Anything = Followed(rule) if isinstance(rule, Growth) else rule or ANYTHING
        """What the number must keep to."""

    @property
    def name(self) -> str:
        """For people."""
        return f"field {self._key[1]}" if self._key[0] == FIELD else str(self._key[0])


class Reader(Protocol):
    """The device whose answers are judged."""

    now: MonotonicTime

    @property
    def refused(self) -> Mapping[History, Any]:
        """What was there and is refused now."""
        ...

    def history(self, key: Key, rule: Rule | None = None) -> History:
        """Of this answer, the same for all calls that bring it."""
        ...

    def accept(self, history: History) -> None:
        """It is there again."""
        ...

    def refuse(self, history: History) -> None:
        """The driver has none of it now: a loss, if it was there."""
        ...

    def reject(self, name: str, answer: object) -> None:
        """It cannot be true, and was left out."""
        ...


def looked_at(reader: Reader, call: Call, key: Key) -> Call:
    """Any other call, its answer looked at as a whole."""
    judge = _judge_of(reader, key)
    history = reader.history(key)
    if key[0] in _LINK:
        call = _without_zero(call, history.name)

    def ask(*cursor: Any) -> Any:
        try:
            answer = call(*cursor)
        except UnsupportedError:
            reader.refuse(history)
            raise
        if reader.refused:
            reader.accept(history)
        history.answered = True
        return answer if judge is None else judge(answer)

    return ask


def _without_zero(call: Call, name: str) -> Call:
    def ask(*cursor: Any) -> Any:
        answer = call(*cursor)
        if answer == 0:
            raise UnsupportedError(f"{name}: 0", "NO_DATA")
        return answer

    return ask


def _judge_of(reader: Reader, key: Key) -> Judge | None:
    """What looks at the answers to a call; None where they are taken as they are."""
    function: str = key[0]
    if function in _LISTS:
        return _processes(reader, function)
    if function == "nvmlGpmMetricsGet":
        return _metrics(reader)
    shape: Shape | None = FUNCTIONS.get(function)
    if shape is None:
        return None
    if isinstance(shape, tuple):
        return _numbers(reader, key, shape)
    if isinstance(shape, Mapping):
        return _struct(reader, key, shape)
    return _number(reader, key, shape)


def judged(reader: Reader, history: History, number: float) -> float | None:
    """What is believed of one number of several in an answer; None where it cannot be true, which is counted."""
    if reader.refused:
        reader.accept(history)
    history.answered = True
    believed = history.rule.believed(number, reader.now)
    if believed is None:
        reader.reject(history.name, number)
    return believed


def _implausible(reader: Reader, history: History, number: object) -> ImplausibleError:
    reader.reject(history.name, number)
    return ImplausibleError(history.name)


def _number(reader: Reader, key: Key, rule: Rule) -> Judge:
    """Of an answer that is one number, or on some drivers the struct around it."""
    history = reader.history(key, rule)

    def judge(answer: Any) -> Any:
        if type(answer) is Record:
            return _struct(reader, key, dict.fromkeys(vars(answer), rule))(answer)
        believed = history.rule.believed(answer, reader.now)
        if believed is None:
            raise _implausible(reader, history, answer)
        return believed

    return judge


def _numbers(reader: Reader, key: Key, rules: Sequence[Rule]) -> Judge:
    histories = [reader.history((*key, place), rule) for place, rule in enumerate(rules)]

    def judge(answer: Sequence[float]) -> tuple[float, ...]:
        found: list[float] = []
        for history, number in zip(histories, answer, strict=False):
            believed = history.rule.believed(number, reader.now)
            if believed is None:
                raise _implausible(reader, history, number)
            found.append(believed)
        return tuple(found)

    return judge


def _struct(reader: Reader, key: Key, shape: Mapping[str, Rule]) -> Judge:
    """Its numbers as they are believed are written into it."""
    function: str = key[0]
    histories = {name: reader.history((*key, name), rule) for name, rule in shape.items()}

    def judge(answer: Record) -> Record:
        fields = vars(answer)
        for name, history in histories.items():
            number = fields.get(name)
            if number is None:
                reader.refuse(history)
                continue
            believed = judged(reader, history, number)
            if believed is None:
                raise ImplausibleError(history.name)
            fields[name] = believed
        if function == _MEMORY and (answer.used or 0) > answer.total:
            reader.reject(function, f"{answer.used} bytes used of {answer.total}")
            raise ImplausibleError(function)
        return answer

    return judge


def _processes(reader: Reader, function: str) -> Judge:
    """Without those that cannot be."""

    def judge(answer: Sequence[Record]) -> Sequence[Record]:
        good = tuple(_possible(answer))
        if len(good) < len(answer):
            reader.reject(function, "processes that cannot be")
        return good

    return judge


def _possible(answer: Sequence[Record]) -> Iterator[Record]:
    for each in answer:
        record = cast("Any", each)
        if 0 < record.pid <= LARGEST_PID:
            memory = record.usedGpuMemory
            record.usedGpuMemory = memory if memory is None or memory <= LARGEST_MEMORY else None
            yield each


def _metrics(reader: Reader) -> Judge:
    """Without those that cannot be. Not a number is GPM's word for no data."""

    def judge(answer: Mapping[int, float]) -> Mapping[int, float]:
        bad = [
            id_
            for id_, number in answer.items()
            if not _GPM[id_ in GPM_RATES][0] <= number <= _GPM[id_ in GPM_RATES][1]
            and number == number  # noqa: PLR0124
            and id_ != GPM_SECONDS
        ]
        for id_ in bad:
            reader.reject(f"GPM metric {id_}", answer[id_])
        return {id_: number for id_, number in answer.items() if id_ not in bad} if bad else answer

    return judge
