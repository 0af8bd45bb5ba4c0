"""What a Prometheus says of its own work: how much it holds, what rules cost it, how fast dashboards are answered."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import requests

from tests.contract.dashboards.reading import NAMES
from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.reader import Reader, Timing
from tests.exporter_process import parse
from tests.scale.cluster import SCRAPE_SECONDS

SLOW_SECONDS = 1.0
"""A panel that takes longer is felt."""


@dataclass(frozen=True, slots=True)
class Rule:
    """`seconds` of its last evaluation, and what was wrong with it."""

    name: str
    seconds: float
    error: str


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """`seconds` of its last evaluation, and `interval` from one to the next."""

    name: str
    seconds: float
    interval: float
    rules: tuple[Rule, ...]


def load(url: str, seconds: float) -> Mapping[str, float]:
    """Prometheus's own figures; those that are rates over the next so many seconds."""
    names = ("process_cpu_seconds_total", "prometheus_tsdb_head_samples_appended_total")
    before = _own(url)
    started = time.monotonic()
    time.sleep(seconds)
    after = _own(url)
    passed = time.monotonic() - started
    return after | {f"{name}:rate": (after[name] - before[name]) / passed for name in names}


def cpu_per_minute(url: str, minutes: int) -> float:
    """CPU seconds a minute that Prometheus takes over the next so many."""
    before = cpu(url)
    time.sleep(60 * minutes)
    return (cpu(url) - before) / minutes


def cpu(url: str) -> float:
    """CPU seconds that Prometheus has taken."""
    return _own(url)["process_cpu_seconds_total"]


def _own(url: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for (name, _), value in parse(requests.get(f"{url}/metrics", timeout=60).text).values.items():
        found[name] = found.get(name, 0.0) + value
    return found


def up(url: str) -> tuple[int, float]:
    """Targets that answer, and seconds the slowest scrape took."""
    return round(_number(url, 'sum(up{job="gpu-exporter"})')), _number(url, "max(scrape_duration_seconds)")


def _number(url: str, expr: str) -> float:
    answer = requests.get(f"{url}/api/v1/query", params={"query": expr}, timeout=300).json()
    result = answer["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def rule_groups(url: str) -> Iterator[RuleGroup]:
    for group in requests.get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"]:
        rules = (Rule(rule["name"], rule["evaluationTime"], rule.get("lastError", "")) for rule in group["rules"])
        yield RuleGroup(group["name"], group["evaluationTime"], group["interval"], tuple(rules))


def costs(url: str, reader: Reader, names: Iterable[str] = NAMES) -> Iterator[tuple[str, Timing]]:
    """Yield each query of dashboards, with the CPU seconds of Prometheus: a busy machine does not change them.

    Each is asked twice: a garbage collection may be in one of them.
    """
    for name in names:
        both = [list(_costs(url, reader, name)) for _ in range(2)]
        yield from ((name, min(each, key=lambda timing: timing.seconds)) for each in zip(*both, strict=True))


def _costs(url: str, reader: Reader, name: str) -> Iterator[Timing]:
    before = cpu(url)
    for timing in reader.timings(name):
        after = cpu(url)
        yield replace(timing, seconds=after - before)
        before = after


def dashboards(url: str, now: int, minutes: int) -> Iterator[tuple[str, Timing]]:
    """Each query of each dashboard over the minutes before `now`, node and GPU as a reader would choose them."""
    return costs(url, Reader(url, Span(now - minutes * 60, now, SCRAPE_SECONDS), {}))
