"""The text that describes a simulation: `8xH200:4*training,input-bound,thermal,idle-held,free;seed=3`.

    SPEC     = GROUP ("+" GROUP)* (";" OPTION)*    |  "@" FILE (";" OPTION)*
    GROUP    = [COUNT "x"] MODEL ["-mig"] [":" PATTERN ("," PATTERN)*]
    PATTERN  = [COUNT "*"] NAME
    OPTION   = "seed=" INT | "driver=" VERSION | "node=" NAME | "scheduler=" (kubernetes|slurm|mixed)
             | "period=" SECONDS | "duty=" RATIO | "churn=" SECONDS | "start=" UNIX_SECONDS
             | "fault=" KIND ":" (GPU|"all") "@" SECONDS ["+" SECONDS]

Each PATTERN is one workload on COUNT GPUs. A single one without a count takes all GPUs of its group; several are
repeated until every GPU has one. Without any, the GPUs do a mix of everything. On MIG, patterns go to instances.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from exporter.simulator.faults import KINDS, Fault
from exporter.simulator.models import MODELS
from exporter.simulator.patterns import MIX, PATTERNS, Pattern
from exporter.simulator.scenario import Plan, Scenario, Settings, scenario
from exporter.simulator.scenario_file import load_scenario
from exporter.simulator.workload import SCHEDULERS

MAX_GPUS = 64
_GROUP = re.compile(r"(?:(?P<count>[0-9]{1,4})x)?(?P<model>[A-Za-z0-9]+)(?P<mig>-mig)?")
_PATTERN = re.compile(r"(?:(?P<count>[0-9]{1,4})\*)?(?P<name>[a-z-]+)")
_FAULT = re.compile(
    r"(?P<kind>[a-z-]+):(?P<gpu>[0-9]{1,2}|all)@(?P<at>[0-9]+(?:\.[0-9]+)?)(?:\+(?P<duration>[0-9]+(?:\.[0-9]+)?))?"
)
_VERSION = re.compile(r"[0-9]{3}(\.[0-9]{1,3}){1,2}")
_NODE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


def parse(text: str) -> Scenario:
    """The scenario of a specification. Raises ValueError, one line that says what was expected."""
    head, *options = text.strip().split(";")
    settings = _settings(options)
    if head.startswith("@"):
        return load_scenario(head[1:], settings)
    plans: list[Plan] = []
    patterns: list[tuple[Pattern, int]] = []
    for group in head.split("+"):
        more, theirs = _group(group.strip())
        plans += more
        patterns += theirs
    if len(plans) > MAX_GPUS:
        raise ValueError(f"{len(plans)} GPUs; expected at most {MAX_GPUS} on one node")
    return scenario(plans, patterns, replace(settings, faults=_on_node(settings.faults, len(plans))))


def parse_gpus(text: str) -> list[Plan]:
    """The GPUs of a group without patterns: `8xH200`, `4xA100-mig+2xL40S`."""
    return [plan for group in text.split("+") for plan in _group(group.strip())[0]]


def fault(text: str) -> Fault:
    """`KIND:GPU@SECONDS+SECONDS`."""
    match = _FAULT.fullmatch(text)
    if not match or match["kind"] not in KINDS:
        raise ValueError(f"fault={text!r}; expected KIND:GPU@SECONDS[+SECONDS] with KIND one of {', '.join(KINDS)}")
    gpu = None if match["gpu"] == "all" else int(match["gpu"])
    duration = float(match["duration"]) if match["duration"] else math.inf
    return Fault(KINDS[match["kind"]], gpu, float(match["at"]), duration)


def _group(text: str) -> tuple[list[Plan], list[tuple[Pattern, int]]]:
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


def _settings(options: list[str]) -> Settings:
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for option in options:
        name, _, text = option.strip().partition("=")
        if name == "fault":
            faults.append(fault(text))
        elif name in _OPTIONS:
            values[name] = _OPTIONS[name](name, text)
        else:
            raise ValueError(f"option {option!r}; expected one of {', '.join(_OPTIONS)}, fault")
    return Settings(**values, faults=tuple(faults))


def _on_node(faults: tuple[Fault, ...], gpus: int) -> tuple[Fault, ...]:
    for each in faults:
        if each.gpu is not None and each.gpu >= gpus:
            raise ValueError(f"fault on GPU {each.gpu}; expected 0 to {gpus - 1}")
    return faults


def _number(low: float, high: float) -> Callable[[str, str], float]:
    def parse_number(name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise ValueError(f"{name}={text}; expected a number from {low:g} to {high:g}")
        return number

    return parse_number


def _integer(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"{name}={text}; expected a whole number")
    return int(text)


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[str, str], str]:
    def parse_text(name: str, text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{name}={text}; expected {expected}")
        return text

    return parse_text


_OPTIONS: Mapping[str, Callable[[str, str], Any]] = {
    "seed": _integer,
    "driver": _matching(_VERSION, "a version such as 580.95.05"),
    "node": _matching(_NODE, "a host name"),
    "scheduler": _matching(re.compile("|".join(SCHEDULERS)), f"one of {', '.join(SCHEDULERS)}"),
    "period": _number(0.001, 1e6),
    "duty": _number(0.0, 1.0),
    "churn": _number(1.0, 1e7),
    "start": _number(0.0, 1e11),
}
