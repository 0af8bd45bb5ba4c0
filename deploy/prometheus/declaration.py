"""Recording rules and alerts, and what is refused when one is declared wrong.

Expressions and texts hold parameters as `<name>`; everything else is PromQL or Prometheus's own template language.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"<([a-z][a-z0-9_]*)>")
_ALERT = re.compile(r"Gpu[A-Z][A-Za-z]+")
_RECORD = re.compile(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+")
_DURATION = re.compile(r"[1-9][0-9]*[smhd]|0s")
_SENTENCE = re.compile(r"[A-Z][^.]*(?:\.\d[^.]*)*\.")
_TITLE = re.compile(r"[A-Z].{3,27}(?<!\.)")
_PARTS = re.compile(r"([0-9]+)([a-z]+)")
_MINUTES = {"ms": 1 / 60_000, "s": 1 / 60, "m": 1, "h": 60, "d": 1440, "w": 10_080, "y": 525_600}
_RARELY, _LONG = 5, 10
"""Minutes between the evaluations of a slow alert; minutes of waiting that take several of them."""


class Severity(str, enum.Enum):
    CRITICAL = "critical"
    """Page: hardware is lost, or work is being corrupted or stopped."""
    WARNING = "warning"
    """Ticket: somebody has to act in working hours."""
    INFO = "info"
    """Seen on dashboards; sent to nobody unless a route asks for it."""


class Audience(str, enum.Enum):
    ONCALL = "oncall"
    OWNER = "owner"
    """The owner of the GPUs; the alert carries the owner's labels."""


class Unit(str, enum.Enum):
    BYTES = "bytes"
    CELSIUS = "celsius"
    COUNT = "count"
    DURATION = "duration"
    PER_SECOND = "per second"
    RATIO = "ratio"
    SECONDS = "seconds"
    SELECTOR = "PromQL"


@dataclass(frozen=True, slots=True)
class Param:
    """One number, duration or selector a site may want otherwise."""

    name: str
    default: float | str
    unit: Unit
    help: str

    def __post_init__(self) -> None:
        if self.unit is Unit.DURATION and not _DURATION.fullmatch(str(self.default)):
            raise ValueError(f"parameter {self.name!r}: {self.default!r} is not a duration")
        if not self.help.endswith("."):
            raise ValueError(f"parameter {self.name!r} needs help that is a sentence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One recording rule. `help` says what its value is, with the unit."""

    record: str
    expr: str
    help: str
    by: tuple[str, ...]
    """The labels of the result, without `cluster`, which every rule keeps."""
    rules: tuple[tuple[Mapping[str, str], str], ...] = ()
    """Labels and expression of each rule, where several record this name. `expr` is then all of them in one query."""

    def __post_init__(self) -> None:
        if not _RECORD.fullmatch(self.record):
            raise ValueError(f"{self.record!r} is not level:metric:operation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert. `for_` and `keep_firing_for` are as Prometheus has them; a site may change both."""

    name: str
    audience: Audience
    severity: Severity
    expr: str
    title: str
    """A few words, for the rows of a graph."""
    meaning: str
    """One sentence, for whoever reads the rule or its runbook."""
    summary: str
    description: str
    for_: str = "0s"
    keep_firing_for: str = "0s"
    params: tuple[Param, ...] = ()
    asks_for_days: bool = False
    """True if it asks about days of each exporter: evaluated rarely, although it pages."""
    correlated: bool = False
    """GpuIncident reads it: evaluated each minute, so that many nodes are one message."""

    def __post_init__(self) -> None:
        problems = [
            (not _ALERT.fullmatch(self.name), "is not GpuCamelCase"),
            (not _DURATION.fullmatch(self.for_), f"has for {self.for_!r}, no duration"),
            (
                not _DURATION.fullmatch(self.keep_firing_for),
                f"has keep_firing_for {self.keep_firing_for!r}, no duration",
            ),
            (self.unknown() != set(), f"uses parameters it does not declare: {self.unknown()}"),
            (self.unused() != set(), f"declares parameters it does not use: {self.unused()}"),
            (not _TITLE.fullmatch(self.title), "needs a title of 4 to 28 characters"),
            (not _SENTENCE.fullmatch(self.meaning), "needs one sentence of what it means"),
            (not self.description.endswith((".", "}}")), "needs a description that is a sentence"),
        ]
        for wrong, why in problems:
            if wrong:
                raise ValueError(f"alert {self.name!r} {why}")

    @property
    def slow(self) -> bool:
        """Return whether it is evaluated rarely: it pages nobody and a few evaluations are enough, or each one is dear.

        It has a window of its own, so that nothing between two evaluations is missed, or waits for many minutes.
        """
        windowed = any(param.unit is Unit.DURATION for param in self.params)
        waits = minutes(self.for_)
        paged = self.severity is Severity.CRITICAL
        return self.asks_for_days or (
            not self.correlated and not paged and (waits >= _LONG or (windowed and waits >= _RARELY))
        )

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.expr, self.summary, self.description)

    @property
    def used(self) -> set[str]:
        return {name for text in self.texts for name in placeholders(text)} - SHARED

    @property
    def runbook(self) -> str:
        """Name of the runbook's page, without its suffix."""
        return self.name.lower()

    def unknown(self) -> set[str]:
        return self.used - {param.name for param in self.params}

    def unused(self) -> set[str]:
        return {param.name for param in self.params} - self.used


SHARED = {"runbooks"}
"""Parameters that belong to all alerts: where the runbooks are."""


def minutes(duration: str) -> float:
    """Return the minutes of a duration as Prometheus writes them, such as 1m30s."""
    return sum(int(number) * _MINUTES[unit] for number, unit in _PARTS.findall(duration))


def placeholders(text: str) -> list[str]:
    return _PLACEHOLDER.findall(text)


def fill(text: str, values: dict[str, str]) -> str:
    """`text` with its parameters filled in; KeyError names one that has no value."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], text)
