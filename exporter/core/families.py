"""Metric families: the one place where everything about a metric is declared, and refused when declared wrong."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from exporter.core.record import record

R = TypeVar("R")

_NAME = re.compile(r"gpu_[a-z0-9]+(_[a-z0-9]+)*")
_LABEL = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = frozenset({"job", "instance", "le", "quantile"})
"""Prometheus's target labels and its own: a family that carries them collides at the scrape."""


class Type(str, enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"


class Unit(str, enum.Enum):
    """Base units only; a collector converts at the moment it reads the driver."""

    BYTES = "bytes"
    CELSIUS = "celsius"
    CORES = "cores"
    HERTZ = "hertz"
    JOULES = "joules"
    RATIO = "ratio"
    SECONDS = "seconds"
    WATTS = "watts"
    NONE = ""


class Shown(enum.Enum):
    """Samples of a family that a page shows.

    NONZERO is for families of many samples that are nearly always 0. A series then begins with its first event, so
    `increase()` misses that event. ZERO is for samples that are nearly always 1.
    """

    ALL = "all"
    NONZERO = "nonzero"
    ZERO = "zero"

    def has(self, value: float) -> bool:
        """Return whether a sample with this value is shown."""
        return self is Shown.ALL or bool(value) is (self is Shown.NONZERO)


class Stability(str, enum.Enum):
    """Promise to users. An experimental family may change in any release, and the reference says so."""

    STABLE = "stable"
    EXPERIMENTAL = "experimental"


Values = tuple[str, ...]
"""Values of labels."""


class Sample(NamedTuple):
    value: float
    labels: Values = ()


@record
class Columns:
    """Samples with their labels apart from their values: series stay for long, values change with every page."""

    labels: tuple[Values, ...] = ()
    values: tuple[float, ...] = ()

    def __iter__(self) -> Iterator[Sample]:
        return map(Sample, self.values, self.labels)


EMPTY = Columns()
_NO_LABELS = ((),)


def in_columns(samples: Iterable[tuple[float, Values]]) -> Columns:
    """These (value, labels) pairs, of which a sample is one."""
    pairs = tuple(samples)
    if not pairs:
        return EMPTY
    values, labels = zip(*pairs, strict=True)
    return Columns(labels, values)


def one(number: float | None) -> Columns:
    """The one sample of a family without labels of its own; None where it is absent."""
    return EMPTY if number is None else Columns(_NO_LABELS, (number,))


DEVICE = ("gpu", "uuid")
INSTANCE = ("gpu", "uuid", "parent_uuid", "profile", "gi", "ci")
NODE: tuple[str, ...] = ()
"""Prefix of families that fill all their labels themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family(Generic[R]):
    """One metric family and the pure function from a reading to its samples, best as columns where they are many.

    Declared by `gauge`, `counter`, `gauges`, `counters` or `info` below, `experimental` around it while it may change.
    `labels` are the labels `samples` fills; `prefix` are those the cycle adds in front of them (the device's).
    """

    name: str
    help: str
    type: Type
    unit: Unit
    samples: Callable[[R], Iterable[Sample]]
    labels: tuple[str, ...] = ()
    prefix: tuple[str, ...] = DEVICE
    stability: Stability = Stability.STABLE
    shown: Shown = Shown.ALL

    def __post_init__(self) -> None:
        suffix = "_total" if self.type is Type.COUNTER else ""
        stem = self.name.removesuffix(suffix)
        labels = (*self.prefix, *self.labels)
        problems = [
            (not _NAME.fullmatch(self.name), "is not gpu_snake_case"),
            (not self.name.endswith(suffix), f"is a {self.type.value} and must end in {suffix}"),
            (self.type is Type.GAUGE and self.name.endswith("_total"), "is a gauge and must not end in _total"),
            (
                bool(self.unit.value) and not stem.endswith(f"_{self.unit.value}"),
                f"must name {self.unit.value}",
            ),
            (not self.help.endswith("."), "needs help that is a sentence"),
            (not all(map(_LABEL.fullmatch, labels)), "has a malformed label"),
            (len(set(labels)) != len(labels), "names a label twice"),
            (bool(_RESERVED.intersection(labels)), "has a label that belongs to Prometheus"),
        ]
        for wrong, why in problems:
            if wrong:
                raise ValueError(f"metric {self.name!r} {why}")

    @property
    def is_info(self) -> bool:
        """Return whether the labels are the content and the value is always 1.

        The type stays gauge, as in client_golang: OpenTelemetry's collector drops `_info` from names of type info.
        """
        return self.name.endswith("_info")

    @property
    def all_labels(self) -> tuple[str, ...]:
        return (*self.prefix, *self.labels)

    def collect(self, reading: R) -> tuple[Sample, ...]:
        """The samples of `reading`, each checked to have one value per label."""
        return tuple(self.columns(reading))

    def columns(self, reading: R) -> Columns:
        """The same as columns."""
        made = self.samples(reading)
        return self.checked(made if isinstance(made, Columns) else in_columns(made))

    def by_labels(self, reading: R) -> Mapping[Values, float]:
        """The values by their labels, which are not checked."""
        made = self.samples(reading)
        columns = made if isinstance(made, Columns) else in_columns(made)
        return dict(zip(columns.labels, columns.values, strict=True))

    def checked(self, columns: Columns) -> Columns:
        """The columns themselves. Raises ValueError where a sample has not one value per label."""
        if not {len(self.labels)}.issuperset(map(len, columns.labels)):
            raise ValueError(f"metric {self.name!r} has samples that do not fit {self.labels}")
        return columns


AnyFamily = Family[Any]


def experimental(family: Family[R]) -> Family[R]:
    """The family, which may still change in any release."""
    return replace(family, stability=Stability.EXPERIMENTAL)


def gauge(
    name: str,
    help: str,
    unit: Unit,
    value: Callable[[R], float | None],
    prefix: tuple[str, ...] = DEVICE,
    *,
    shown: Shown = Shown.ALL,
) -> Family[R]:
    """A gauge with one sample of each reading, absent while `value` is None."""
    return gauges(name, help, unit, lambda reading: one(value(reading)), (), prefix, shown=shown)


def counter(
    name: str, help: str, unit: Unit, value: Callable[[R], float | None], prefix: tuple[str, ...] = DEVICE
) -> Family[R]:
    """A counter with one sample of each reading, absent while `value` is None."""
    return counters(name, help, unit, lambda reading: one(value(reading)), (), prefix)


def gauges(  # noqa: PLR0913 - the parts of a declaration
    name: str,
    help: str,
    unit: Unit,
    samples: Callable[[R], Iterable[Sample]],
    labels: tuple[str, ...],
    prefix: tuple[str, ...] = DEVICE,
    *,
    shown: Shown = Shown.ALL,
) -> Family[R]:
    """A gauge with labels of its own, which `samples` fills."""
    return Family(
        name=name, help=help, type=Type.GAUGE, unit=unit, samples=samples, labels=labels, prefix=prefix, shown=shown
    )


def counters(  # noqa: PLR0913 - the parts of a declaration
    name: str,
    help: str,
    unit: Unit,
    samples: Callable[[R], Iterable[Sample]],
    labels: tuple[str, ...],
    prefix: tuple[str, ...] = DEVICE,
    *,
    shown: Shown = Shown.ALL,
) -> Family[R]:
    """A counter with labels of its own, which `samples` fills."""
    return Family(
        name=name, help=help, type=Type.COUNTER, unit=unit, samples=samples, labels=labels, prefix=prefix, shown=shown
    )


def info(
    name: str,
    help: str,
    samples: Callable[[R], Iterable[Sample]],
    labels: tuple[str, ...],
    prefix: tuple[str, ...] = DEVICE,
) -> Family[R]:
    """A gauge that is always 1 and describes something by its labels."""
    if not name.endswith("_info"):
        raise ValueError(f"metric {name!r} must end in _info")
    return gauges(name, help, Unit.NONE, samples, labels, prefix)


def by(mapping: Callable[[R], Iterable[tuple[str, float | None]]]) -> Callable[[R], Iterable[Sample]]:
    """Samples of a family with one label, from (label value, number) pairs; absent where the number is None."""

    def samples(reading: R) -> Columns:
        return in_columns([(number, (str(key),)) for key, number in mapping(reading) if number is not None])

    return samples


@record
class Block:
    """Samples of one family; `prefix` are the values of the family's prefix labels."""

    family: AnyFamily
    prefix: Values
    source: Any
    """The samples as columns, or a reading that they are made of when a page is: cycles are many, scrapes few.

    It never changes: the same object stands for the same samples."""

    @property
    def columns(self) -> Columns:
        return self.source if isinstance(self.source, Columns) else self.family.columns(self.source)

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self.columns)
