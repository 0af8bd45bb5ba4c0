"""One report of a program: its text, and how the reports of a workload's processes add up."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class Progress:
    """Totals since the program started; None is what it does not report."""

    samples: float | None = None
    """Samples or tokens worked off."""
    steps: float | None = None
    ratio: float | None = None
    """Part of the whole work that is done, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Report:
    """One file. `pid` is as the program sees itself, in its own pid namespace."""

    pid: int
    progress: Progress


def parse(text: str) -> Report | None:
    """A report from `{"pid": 71, "samples": 12800, "steps": 400, "progress": 0.25}`; None where it is not one.

    Numbers that are negative, not finite or not numbers are left out.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    fields = cast("dict[str, Any]", content)
    pid = fields.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0:
        return None
    ratio = _number(fields.get("progress"))
    progress = Progress(
        samples=_number(fields.get("samples")),
        steps=_number(fields.get("steps")),
        ratio=None if ratio is None else min(ratio, 1.0),
    )
    return Report(pid, progress) if progress != Progress() else None


def together(reports: Iterable[Progress]) -> Progress:
    """A workload from its processes: samples add up, steps are taken in step, and it is as far as its last rank."""
    found = tuple(reports)
    samples = [each.samples for each in found if each.samples is not None]
    steps = [each.steps for each in found if each.steps is not None]
    ratios = [each.ratio for each in found if each.ratio is not None]
    return Progress(sum(samples) if samples else None, max(steps, default=None), min(ratios, default=None))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
