"""Checks of the answers to one call, made once for each call of a device together with the call itself.

A validator takes an answer and returns its plausible part: None where nothing of it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, cast

from exporter.core.clock import MonotonicTime
from exporter.driver.interface import GPM_SECONDS, Call, Record, UnsupportedError
from exporter.driver.plausibility import (
    ANYTHING,
    FIELDS,
    FUNCTIONS,
    GPM_MEBIBYTES_PER_SECOND,
    GPM_PERCENT,
    GPM_RATES,
    MAX_POWER_RATIO,
    POWER_LIMITS,
    POWER_USAGE,
    Anything,
    Followed,
    Growth,
    Range,
    Rule,
    Shape,
)

LARGEST_PID = 1 << 22
"""The kernel's own limit (PID_MAX_LIMIT)."""
MAX_MEMORY_BYTES = 1 << 50

Answers = tuple[float | None, ...]
"""Answers to a batch of fields, in their order; None where the device has none."""
Key = tuple[Any, ...]
"""Function and arguments; for a part of an answer its name too."""
Validator = Callable[[Any], Any]

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


class History:
    """History of one answer, or of one number in it, from read to read."""

    __slots__ = ("_key", "answered", "rule")

    def __init__(self, key: Key, rule: Rule | None = None) -> None:
        self._key = key
        self.answered = False
        """True once it was there."""
        self.rule: Range | Followed | Anything = Followed(rule) if isinstance(rule, Growth) else rule or ANYTHING
        """Rule that the number must keep."""

    @property
    def name(self) -> str:
        """Name for people."""
        return f"field {self._key[1]}" if self._key[0] == FIELD else str(self._key[0])


class Reader(Protocol):
    """The device whose answers are checked."""

    now: MonotonicTime
    power_limit: float
    """Highest power limit that was believed, in milliwatts; 0 if none was."""

    @property
    def refused(self) -> Mapping[History, Any]:
        """Answers that were there and are refused now."""
        ...

    def history(self, key: Key, rule: Rule | None = None) -> History:
        """Return the history of this answer, the same for all calls that bring it."""
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


class Check(Protocol):
    """One prepared call, and how its answers are checked."""

    call: Call

    @property
    def answered(self) -> bool:
        """Return whether the device ever answered it, or asks anew by itself."""
        ...

    def believed(self, answer: Any) -> Any:
        """Return what is believed of an answer; None for nothing. Raises UnsupportedError if it means there is none."""
        ...

    def refused(self) -> None:
        """Note that the device has no such reading now: a loss, if it was there."""
        ...


class AnswerCheck:
    """Checks the answers to a call as a whole."""

    __slots__ = ("_history", "_reader", "_validate", "_zero_is_none", "call")

    def __init__(self, reader: Reader, call: Call, key: Key) -> None:
        self.call = call
        self._reader = reader
        self._validate = _validator_of(reader, key)
        self._history = reader.history(key)
        self._zero_is_none = key[0] in _LINK

    @property
    def answered(self) -> bool:
        return self._history.answered

    def believed(self, answer: Any) -> Any:
        if self._zero_is_none and answer == 0:
            raise UnsupportedError(f"{self._history.name}: 0", "NO_DATA")
        if self._reader.refused:
            self._reader.accept(self._history)
        self._history.answered = True
        return answer if self._validate is None else self._validate(answer)

    def refused(self) -> None:
        self._reader.refuse(self._history)


class FieldCheck:
    """Checks each number of a batch of fields. What was believed and is answered once more is not checked again.

    A batch that is refused as a whole refuses each of its fields: collectors ask for several.
    """

    answered = True
    __slots__ = ("_good", "_histories", "_plausible", "_reader", "_repeated", "call")

    def __init__(self, reader: Reader, call: Call, wanted: Sequence[tuple[int, int]]) -> None:
        self.call = call
        self._reader = reader
        self._histories = [reader.history((FIELD, field, scope), FIELDS.get(field)) for field, scope in wanted]
        self._good: Answers | None = None
        """The last answers, where each of their numbers was believed."""
        self._plausible: Answers = ()
        self._repeated: MonotonicTime | None = None
        """Time at which they last came again."""

    def believed(self, answer: Answers) -> Answers:
        if answer == self._good and not self._reader.refused:
            self._repeated = self._reader.now
            return self._plausible
        if self._repeated is not None:
            for history in self._histories:
                history.rule.repeated(self._repeated)
        return self._check_fields(answer)

    def refused(self) -> None:
        for history in self._histories:
            self._reader.refuse(history)

    def _check_fields(self, answers: Answers) -> Answers:
        reader = self._reader
        found, all_believed = list(answers), True
        for place, history in enumerate(self._histories):
            number = found[place]
            if number is None:
                reader.refuse(history)
                continue
            found[place] = plausible(reader, history, number)
            all_believed = all_believed and found[place] is not None
        self._good, self._plausible, self._repeated = answers if all_believed else None, tuple(found), None
        return self._plausible


def _validator_of(reader: Reader, key: Key) -> Validator | None:
    """Return the check of the answers to a call; None where they are taken as they are."""
    function: str = key[0]
    if function in _LISTS:
        return _process_check(reader, function)
    if function == "nvmlGpmMetricsGet":
        return _metrics_check(reader)
    shape: Shape | None = FUNCTIONS.get(function)
    if shape is None:
        return None
    validate: Validator
    if isinstance(shape, tuple):
        validate = _numbers_check(reader, key, shape)
    elif isinstance(shape, Mapping):
        validate = _struct_check(reader, key, shape)
    else:
        validate = _number_check(reader, key, shape)
    if function in POWER_LIMITS:
        return _noting_limit(reader, validate)
    return _within_limit(reader, key, validate) if function == POWER_USAGE else validate


def _noting_limit(reader: Reader, validate: Validator) -> Validator:
    def note(answer: Any) -> Any:
        believed = validate(answer)
        if believed is not None:
            limits = cast("tuple[float, ...]", believed if isinstance(believed, tuple) else (believed,))
            reader.power_limit = max(reader.power_limit, *limits)
        return cast("Any", believed)

    return note


def _within_limit(reader: Reader, key: Key, validate: Validator) -> Validator:
    history = reader.history(key)

    def validate_power(answer: Any) -> Any:
        believed = validate(answer)
        if believed is None or not reader.power_limit or believed <= MAX_POWER_RATIO * reader.power_limit:
            return believed
        reader.reject(history.name, answer)
        return None

    return validate_power


def plausible(reader: Reader, history: History, number: float) -> float | None:
    """Return what is believed of one number of an answer; None where it cannot be true, which is counted."""
    if reader.refused:
        reader.accept(history)
    history.answered = True
    believed = history.rule.believed(number, reader.now)
    if believed is None:
        reader.reject(history.name, number)
    return believed


def _number_check(reader: Reader, key: Key, rule: Rule) -> Validator:
    """Validate an answer that is one number, or on some drivers the struct around it."""
    history = reader.history(key, rule)

    def validate(answer: Any) -> Any:
        if type(answer) is Record:
            return _struct_check(reader, key, dict.fromkeys(vars(answer), rule))(answer)
        believed = history.rule.believed(answer, reader.now)
        if believed is None:
            reader.reject(history.name, answer)
        return believed

    return validate


def _numbers_check(reader: Reader, key: Key, rules: Sequence[Rule]) -> Validator:
    histories = [reader.history((*key, place), rule) for place, rule in enumerate(rules)]

    def validate(answer: Sequence[float]) -> tuple[float, ...] | None:
        found: list[float] = []
        for history, number in zip(histories, answer, strict=False):
            believed = history.rule.believed(number, reader.now)
            if believed is None:
                reader.reject(history.name, number)
                return None
            found.append(believed)
        return tuple(found)

    return validate


def _struct_check(reader: Reader, key: Key, shape: Mapping[str, Rule]) -> Validator:
    """Its numbers as they are believed are written into it."""
    function: str = key[0]
    histories = {name: reader.history((*key, name), rule) for name, rule in shape.items()}

    def validate(answer: Record) -> Record | None:
        fields = vars(answer)
        for name, history in histories.items():
            number = fields.get(name)
            if number is None:
                reader.refuse(history)
                continue
            believed = plausible(reader, history, number)
            if believed is None:
                return None
            fields[name] = believed
        if function == _MEMORY and (answer.used or 0) > answer.total:
            reader.reject(function, f"{answer.used} bytes used of {answer.total}")
            return None
        return answer

    return validate


def _process_check(reader: Reader, function: str) -> Validator:
    """Leave out processes that cannot be."""

    def validate(answer: Sequence[Record]) -> Sequence[Record]:
        good = tuple(_possible_processes(answer))
        if len(good) < len(answer):
            reader.reject(function, "processes that cannot be")
        return good

    return validate


def _possible_processes(answer: Sequence[Record]) -> Iterator[Record]:
    for each in answer:
        record = cast("Any", each)
        if 0 < record.pid <= LARGEST_PID:
            memory = record.usedGpuMemory
            record.usedGpuMemory = memory if memory is None or memory <= MAX_MEMORY_BYTES else None
            yield each


def _metrics_check(reader: Reader) -> Validator:
    """Leave out metrics that cannot be. Not a number is GPM's word for no data."""

    def validate(answer: Mapping[int, float]) -> Mapping[int, float]:
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

    return validate
