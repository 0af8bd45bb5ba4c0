"""Rules of the health check, and the ways in which one finds what is wrong."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from exporter.attribution.devices import DeviceName
from exporter.core.clock import UnixTime
from exporter.core.families import Block


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    value: float

    @property
    def gpu(self) -> str:
        """Index of the GPU it is about; empty for the node."""
        return self.labels.get("gpu", "")


@dataclass(frozen=True, slots=True)
class Facts:
    """Series by family. `time` is the Unix time they are evaluated at."""

    series: Mapping[str, tuple[Series, ...]]
    time: UnixTime

    def of(self, family: str, **labels: str) -> tuple[Series, ...]:
        """Series of a family that carry these labels."""
        wanted = labels.items()
        return tuple(s for s in self.series.get(family, ()) if all(s.labels.get(k) == v for k, v in wanted))

    def value(self, family: str, **labels: str) -> float | None:
        """The value of the one such series, None without it."""
        found = self.of(family, **labels)
        return found[0].value if found else None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(series.labels.get("model", "") for series in self.of("gpu_info"))


def from_blocks(blocks: Iterable[Block], time: UnixTime) -> Facts:
    """Facts from what an exporter of this process has sampled, without a text between them."""
    found: dict[str, list[Series]] = {}
    for block in blocks:
        names = block.family.all_labels
        series = (Series(dict(zip(names, (*block.prefix, *s.labels), strict=True)), s.value) for s in block.samples)
        found.setdefault(block.family.name, []).extend(series)
    return Facts({name: tuple(series) for name, series in found.items()}, time)


class Verdict(enum.IntEnum):
    """Verdicts in the order of Nagios's exit codes."""

    OK = 0
    DEGRADED = 1
    """It works, with less than it should: mend it at the next opportunity."""
    FAILED = 2
    """No new work should be put on it."""
    UNKNOWN = 3
    """Nothing could be found out."""

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers the rules compare with. `gpus` 0: as many as the PCI bus shows."""

    gpus: int = 0
    margin: float = 3.0
    """Degrees left before the GPU slows itself down."""
    hot: float = 70.0
    """Temperature above which a fan must turn."""
    stale: float = 60.0
    """Age in seconds at which what an exporter reports is no longer news."""
    reference: Mapping[str, str] = field(default_factory=dict[str, str])
    """Values that every GPU of the site must have, by the names of `reference.REFERENCES`."""
    link_errors: float = 1000.0
    """Errors that links may have counted."""
    emptied: tuple[DeviceName, ...] | None = None
    """GPUs that must be empty; None: all of them."""
    job: str = ""
    """The Slurm job that has ended: a GPU on which another one runs is not its alone."""
    allowed: tuple[str, ...] = ()
    """Beginnings of names of programs that may stay on them."""


Cause = tuple[str, Mapping[str, object]]
"""Index of the GPU (empty: the node), and what the rule's sentence is filled with. `uuid`, where it is in there, says
which GPU is meant: one that is gone may have had the index of another. `verdict` takes the place of the rule's."""
Find = Callable[[Facts, Limits], Iterable[Cause]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be wrong. `short`, `text` and `action` are filled with what `find` found."""

    name: str
    verdict: Verdict
    find: Find
    short: str
    """Text for `sinfo -R`, which shows 20 characters, `GPU3` included."""
    runbook: str
    """Name of the page in docs/runbooks."""
    text: str
    action: str
    source: str
    """Source of the threshold and the action."""
    hands: bool = False
    """True if somebody has to fix it. The end of the others is observed by each check of the stage `periodic`."""
    confirm: bool = False
    """True if it counts only when a second check finds it too: a GPU reset takes seconds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, in words."""

    rule: str
    verdict: Verdict
    gpu: str
    """Index; empty for the node; several in one that is merged."""
    uuid: str
    reason: str
    action: str
    short: str = ""
    hands: bool = False
    confirm: bool = False
    runbook: str = ""

    @property
    def summary(self) -> str:
        """`GPU 3: heat lowers the clocks`."""
        return f"GPU{'s' if ',' in self.gpu else ''} {self.gpu}: {self.reason}" if self.gpu else self.reason


def merge_findings(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Return the findings, those that differ in their GPU alone as one that names all of them."""
    gpus: dict[Finding, list[str]] = {}
    for finding in findings:
        gpus.setdefault(replace(finding, gpu="", uuid=""), []).append(finding.gpu)
    return (replace(finding, gpu=", ".join(dict.fromkeys(names))) for finding, names in gpus.items())


def series_above(family: str, limit: float = 0.0, **labels: str) -> Find:
    """Series above a number."""

    def find(facts: Facts, _limits: Limits) -> Iterable[Cause]:
        return (_cause_of(s) for s in facts.of(family, **labels) if s.value > limit)

    return find


def series_labelled(family: str, label: str, values: Iterable[str]) -> Find:
    """Series that are 1 and whose label is one of these."""
    known = frozenset(values)

    def find(facts: Facts, _limits: Limits) -> Iterable[Cause]:
        return (_cause_of(s) for s in facts.of(family) if s.value == 1 and s.labels.get(label) in known)

    return find


def _cause_of(series: Series) -> Cause:
    return series.gpu, {**series.labels, "value": f"{series.value:g}"}
