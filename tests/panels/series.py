"""The series of `cluster.txt`, as OpenMetrics text that promtool makes blocks of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from exporter.ledger.states import STATES
from tests.e2e.dashboards.history import JOB, Span

CLUSTER = "lab"
RANGE_MINUTES, BEFORE_MINUTES = 120, 30
"""Counters count before the range as in its second half: what rates say late at its end, they say late at its begin."""
END = 1_789_999_200 - 90
"""Of the time range: half a minute after the last scrape, as people ask between two evaluations of the rules."""
LAST_SCRAPE = END - 30
LOOKBACK = "59s"
"""A series ends with its last scrape or evaluation, each a minute after the other."""
WRITTEN = Span(LAST_SCRAPE - 60 * (BEFORE_MINUTES + RANGE_MINUTES), LAST_SCRAPE, 60)
SHOWN = Span(END - 60 * RANGE_MINUTES, END, 60)

_WEEK_SECONDS = 7 * 86_400
_LINE = re.compile(r"(?P<name>[\w:]+)(?:\{(?P<labels>.*)\})? (?P<phases>\S+(?: \S+)*)")
_PAIR = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class _Reader:
    section: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def pairs(self, text: str) -> dict[str, str]:
        for name, labels in self.names.items():
            text = text.replace(f"@{name}", labels)
        return dict(_PAIR.findall(text))


def families() -> dict[str, set[str]]:
    """The labels that the file gives to each metric."""
    found: dict[str, set[str]] = {}
    for name, labels, _ in _series():
        found.setdefault(name, set()).update(labels)
    return found


Series = tuple[str, dict[str, str], tuple[str, ...]]
Point = tuple[int, float]


def write(path: Path) -> Path:
    return _write(path, _with_every_state(list(_series())), _points)


def write_week_before(path: Path) -> Path:
    """Write what was recorded a week before the last scrape: promtool is slow with text of both times."""
    return _write(path, _series(), _week_before)


def _write(path: Path, series: Iterable[Series], points: Callable[[tuple[str, ...]], Iterable[Point]]) -> Path:
    with path.open("w") as out:
        for name, labels, phases in series:
            pairs = ",".join(f'{key}="{value}"' for key, value in labels.items())
            out.writelines(f"{name}{{{pairs}}} {value!r} {at}\n" for at, value in points(phases))
        out.write("# EOF\n")
    return path


def _with_every_state(series: list[Series]) -> Iterator[Series]:
    """The exporter has a counter of each state; those that the file leaves out stand at 0."""
    yield from series
    found: dict[tuple[str, frozenset[tuple[str, str]]], tuple[set[str], tuple[str, ...]]] = {}
    for name, labels, phases in series:
        if name.endswith(("gpu_state_seconds_total", "mig_time_seconds_total", "workload_gpu_seconds_total")):
            others = frozenset(pair for pair in labels.items() if pair[0] != "state")
            found.setdefault((name, others), (set(), phases))[0].add(labels["state"])
    for (name, others), (states, phases) in found.items():
        still = tuple("-" if phase == "-" else "+0" for phase in phases)
        for state in STATES:
            if state not in states:
                yield name, {**dict(others), "state": state}, still


def _series() -> Iterator[Series]:
    reader = _Reader()
    for line in Path(__file__).with_name("cluster.txt").read_text().splitlines():
        if line.startswith("@"):
            name, _, labels = line[1:].partition(" ")
            reader.names[name] = labels
        elif line.startswith("["):
            reader.section = reader.pairs(line)
        elif line and not line.startswith("#"):
            found = _LINE.fullmatch(line)
            assert found, line
            labels = {"cluster": CLUSTER, "job": JOB} | reader.section | reader.pairs(found["labels"] or "")
            for each in _each(labels):
                yield found["name"], each, tuple(found["phases"].split())


def _each(labels: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """One for each of the alternatives that a label names; other labels name the one in braces."""
    several = [name for name, value in labels.items() if "|" in value]
    for chosen in product(*(labels[name].split("|") for name in several)):
        fixed = dict(zip(several, chosen, strict=True))
        known = {**labels, **fixed}
        yield {name: re.sub(r"\{(\w+)\}", lambda m, k=known: k[m[1]], value) for name, value in known.items()}


def _points(phases: tuple[str, ...]) -> Iterator[Point]:
    total = 0.0
    for at in WRITTEN.times:
        since = at - (LAST_SCRAPE - 60 * RANGE_MINUTES)
        place = min(max(since, 0) * len(phases) // (60 * RANGE_MINUTES), len(phases) - 1)
        phase = phases[-1] if since < 0 and phases[0].startswith("+") else phases[place]
        if phase.startswith("+"):
            yield at, total
            total += float(phase)
        elif phase.startswith("end-"):
            yield at, END - float(phase[4:])
        elif phase.startswith("now-"):
            yield at, at - float(phase[4:])
        elif phase != "-" and not phase.startswith("week:"):
            yield at, float(phase)


def _week_before(phases: tuple[str, ...]) -> Iterator[Point]:
    yield from ((LAST_SCRAPE - _WEEK_SECONDS, float(each[5:])) for each in phases if each.startswith("week:"))
