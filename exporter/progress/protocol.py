"""One report of a program, version 1 of the protocol (docs/progress.md): a JSON object of at most 4 KiB.

A user wrote it: invalid numbers are left out, names are bounded and counted, anything else is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from exporter.host.text import bounded

VERSION = 1
LARGEST = 4096
"""Limit of one report in bytes."""
COUNTERS = ("samples", "images", "tokens", "requests", "steps", "epochs", "model_flops")
"""Totals since the program started."""
MAX_PHASES = 16
MAX_NAME = 40
MAX_RANK = 1_000_000
MAX_NUMBER = 1e30
"""More than any program counts (an exaflop machine has 3e25 operations a year). Sums are still finite."""


@dataclass(frozen=True, slots=True)
class Report:
    """Report of one process: totals since it started; None or empty if absent.

    `pid` is the program's own, or 0. `group` names the ranks with the same data on one node (tensor and pipeline
    parallel), `group_size` is their number on all nodes: either way their counters count once. `remaining`, `phases`,
    `step_seconds` (without waiting for others) and `time_to_target` are in seconds.
    """

    pid: int = 0
    rank: int | None = None
    group: str = ""
    group_size: int = 1
    counters: Mapping[str, float] = field(default_factory=dict[str, float])
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    ratio: float | None = None
    remaining: float | None = None
    step_seconds: float | None = None
    time_to_target: float | None = None


def parse(text: bytes) -> Report | None:
    """Parse a report; None if it is none, or has an unknown version."""
    if len(text) > LARGEST:
        return None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    fields = cast("dict[str, Any]", content)
    if fields.get("version", VERSION) != VERSION:
        return None
    ratio, total, done = (
        _parse_number(fields.get("progress")),
        _parse_number(fields.get("total")),
        _parse_number(fields.get("steps")),
    )
    if ratio is None and total and done is not None:
        ratio = done / total
    report = Report(
        pid=_parse_integer(fields.get("pid"), 1 << 22) or 0,
        rank=_parse_integer(fields.get("rank"), MAX_RANK),
        group=_parse_name(fields.get("group")),
        group_size=_parse_integer(fields.get("group_size"), MAX_RANK) or 1,
        counters={name: number for name in COUNTERS if (number := _parse_number(fields.get(name))) is not None},
        phases=_parse_phases(fields.get("phases")),
        ratio=None if ratio is None else min(ratio, 1.0),
        remaining=_parse_number(fields.get("remaining_seconds")),
        step_seconds=_parse_number(fields.get("step_seconds")),
        time_to_target=_parse_number(fields.get("time_to_target_seconds")),
    )
    has_content = report.counters or report.phases or report.ratio is not None or report.remaining is not None
    return report if has_content else None


def _parse_phases(content: object) -> Mapping[str, float]:
    if not isinstance(content, dict):
        return {}
    found: dict[str, float] = {}
    for key, value in cast("dict[str, Any]", content).items():
        name, seconds = _parse_name(key), _parse_number(value)
        if name and seconds is not None and len(found) < MAX_PHASES:
            found[name] = seconds
    return found


def _parse_name(value: object) -> str:
    return bounded(value, MAX_NAME) if isinstance(value, str) and value.isprintable() else ""


def _parse_integer(value: object, limit: int) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= limit else None


def _parse_number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number <= MAX_NUMBER else None  # nor NaN
