"""The GPUs of a node and what runs on them, as text: `8xH200:4*training,input-bound+4xA100-mig`. Grammar in `spec`."""

from __future__ import annotations

import re

from exporter.tools.simulator.models import MODELS
from exporter.tools.simulator.patterns import MIX, PATTERNS, Pattern
from exporter.tools.simulator.scenario import Plan

MAX_GPUS = 64
_GROUP = re.compile(r"(?:(?P<count>[0-9]{1,4})x)?(?P<model>[A-Za-z0-9]+)(?P<mig>-mig)?")
_PATTERN = re.compile(r"(?:(?P<count>[0-9]{1,4})\*)?(?P<name>[a-z-]+)")


def parse_gpus(text: str) -> list[Plan]:
    """The GPUs of groups, whatever runs on them: `8xH200`, `4xA100-mig+2xL40S`."""
    return [plan for group in text.split("+") for plan in parse_group(group.strip())[0]]


def parse_group(text: str) -> tuple[list[Plan], list[tuple[Pattern, int]]]:
    """The GPUs of one group, and its patterns with the number of places each takes.

    Raises ValueError, one line that reports what was expected.
    """
    head, colon, tail = text.partition(":")
    match = _GROUP.fullmatch(head)
    model = next((MODELS[key] for key in MODELS if match and key.lower() == match["model"].lower()), None)
    if not match or model is None:
        raise ValueError(f"{head!r} names no GPUs; expected COUNTxMODEL, MODEL one of {', '.join(MODELS)}")
    count = int(match["count"] or 1)
    if not 1 <= count <= MAX_GPUS:
        raise ValueError(f"{count} GPUs in {head!r}; expected 1 to {MAX_GPUS}")
    if match["mig"] and not model.slices:
        raise ValueError(f"{model.key} has no MIG; expected -mig with one of {', '.join(_mig_models())}")
    plans = [Plan(model, bool(match["mig"]))] * count
    places = sum(len(plan.slots) for plan in plans)
    return plans, _patterns(tail, places, alone=bool(match["mig"])) if colon else _mix(places, alone=bool(match["mig"]))


def _mig_models() -> list[str]:
    return [key for key, model in MODELS.items() if model.slices]


def _mix(places: int, *, alone: bool) -> list[tuple[Pattern, int]]:
    names = [MIX[index % len(MIX)] for index in range(places)]
    if alone:
        return [(PATTERNS[name], 1) for name in names]
    found: list[tuple[Pattern, int]] = []
    for name in names:
        if found and found[-1][0].name == name:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((PATTERNS[name], 1))
    return found


def _patterns(text: str, places: int, *, alone: bool) -> list[tuple[Pattern, int]]:
    """Patterns with their number of places; on MIG (`alone`) each place is a workload of its own."""
    named = [_pattern(word.strip()) for word in text.split(",")]
    if len(named) == 1 and named[0][1] is None and not alone:
        return [(named[0][0], places)]
    row = [(pattern, count or 1) for pattern, count in named]
    total = sum(count for _, count in row)
    if total > places:
        raise ValueError(f"{text!r} is for {total} GPUs; expected patterns for at most {places}")
    found: list[tuple[Pattern, int]] = []
    left = places
    while left > 0:
        pattern, count = row[len(found) % len(row)]
        found.append((pattern, min(count, left)))
        left -= count
    return found


def _pattern(text: str) -> tuple[Pattern, int | None]:
    match = _PATTERN.fullmatch(text)
    pattern = PATTERNS.get(match["name"]) if match else None
    if not match or pattern is None or match["count"] == "0":
        raise ValueError(f"pattern {text!r}; expected [COUNT*]NAME, NAME one of {', '.join(PATTERNS)}")
    return pattern, int(match["count"]) if match["count"] else None
