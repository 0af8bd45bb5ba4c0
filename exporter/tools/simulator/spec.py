"""The text that describes a simulation: `8xH200:4*training,input-bound,thermal,allocated-idle,free;seed=3`.

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

from exporter.tools.simulator.patterns import KINDS, Fault, Pattern
from exporter.tools.simulator.scenario import MAX_GPUS, Plan, Scenario, Settings, parse_group, scenario
from exporter.tools.simulator.scenario_file import load_scenario
from exporter.tools.simulator.workload import SCHEDULERS

_FAULT = re.compile(
    r"(?P<kind>[a-z-]+):(?P<gpu>[0-9]{1,2}|all)@(?P<at>[0-9]+(?:\.[0-9]+)?)(?:\+(?P<duration>[0-9]+(?:\.[0-9]+)?))?"
)
_VERSION = re.compile(r"[0-9]{3}(\.[0-9]{1,3}){1,2}")
_FILES = (".yaml", ".yml", ".json")
_NODE = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


def parse(text: str) -> Scenario:
    """The scenario of a specification. Raises ValueError, one line that reports what was expected."""
    head, *options = text.strip().split(";")
    settings = _parse_settings(options)
    if head.startswith("@"):
        return load_scenario(head[1:], settings)
    if head.endswith(_FILES):
        raise ValueError(f"{head!r} names no GPUs; expected @{head} for what is in a file")
    plans: list[Plan] = []
    patterns: list[tuple[Pattern, int]] = []
    for group in head.split("+"):
        more, theirs = parse_group(group.strip())
        plans += more
        patterns += theirs
    if len(plans) > MAX_GPUS:
        raise ValueError(f"{len(plans)} GPUs; expected at most {MAX_GPUS} on one node")
    return scenario(plans, patterns, replace(settings, faults=_on_node(settings.faults, len(plans))))


def fault(text: str) -> Fault:
    """`KIND:GPU@SECONDS+SECONDS`."""
    match = _FAULT.fullmatch(text)
    if not match or match["kind"] not in KINDS:
        raise ValueError(f"fault={text!r}; expected KIND:GPU@SECONDS[+SECONDS] with KIND one of {', '.join(KINDS)}")
    gpu = None if match["gpu"] == "all" else int(match["gpu"])
    duration = float(match["duration"]) if match["duration"] else math.inf
    return Fault(KINDS[match["kind"]], gpu, float(match["at"]), duration)


def _parse_settings(options: list[str]) -> Settings:
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


def _number_parser(low: float, high: float) -> Callable[[str, str], float]:
    def parse_number(name: str, text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise ValueError(f"{name}={text}; expected a number from {low:g} to {high:g}")
        return number

    return parse_number


def _parse_integer(name: str, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ValueError(f"{name}={text}; expected a whole number")
    return int(text)


def _pattern_parser(pattern: re.Pattern[str], expected: str) -> Callable[[str, str], str]:
    def parse_text(name: str, text: str) -> str:
        if not pattern.fullmatch(text):
            raise ValueError(f"{name}={text}; expected {expected}")
        return text

    return parse_text


_OPTIONS: Mapping[str, Callable[[str, str], Any]] = {
    "seed": _parse_integer,
    "driver": _pattern_parser(_VERSION, "a version such as 580.95.05"),
    "node": _pattern_parser(_NODE, "a host name"),
    "scheduler": _pattern_parser(re.compile("|".join(SCHEDULERS)), f"one of {', '.join(SCHEDULERS)}"),
    "period": _number_parser(0.001, 1e6),
    "duty": _number_parser(0.0, 1.0),
    "churn": _number_parser(1.0, 1e7),
    "start": _number_parser(0.0, 1e11),
}
