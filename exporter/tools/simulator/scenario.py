"""One simulated node: its GPUs, workloads and faults, and the GPU groups of a specification (`8xH200:4*training`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from exporter.tools.simulator.behaviour import unit
from exporter.tools.simulator.models import MODELS, Model
from exporter.tools.simulator.patterns import KINDS, MIX, PATTERNS, Fault, Pattern
from exporter.tools.simulator.workload import Place, Workload, job_block

DRIVER = "580.95.05"
DEFAULT_NODE = "node1"

_PEOPLE = (
    # user    account       namespace
    ("ada",   "physics",    "ml-training"),
    ("grace", "nlp",        "serving"),
    ("alan",  "vision",     "research"),
    ("edsger", "biology",   "notebooks"),
    ("barbara", "climate",  "ml-platform"),
)  # fmt: skip
_CHURN_ALLOCATED = 0.9
"""Part of each cycle a workload runs; then its GPUs are free until the next."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One GPU slot of the node."""

    model: Model
    mig: bool = False

    @property
    def slots(self) -> tuple[int | None, ...]:
        return tuple(range(len(self.model.slices))) if self.mig else (None,)


@dataclass(frozen=True, slots=True)
class Scenario:
    """`start` is Unix seconds; None is the moment the simulation is made. All other times count from there."""

    gpus: tuple[Plan, ...]
    workloads: tuple[Workload, ...] = ()
    faults: tuple[Fault, ...] = ()
    seed: int = 0
    driver: str = DRIVER
    node: str = DEFAULT_NODE
    start: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a specification."""

    seed: int = 0
    driver: str = DRIVER
    node: str = DEFAULT_NODE
    scheduler: str = "mixed"
    period: float | None = None
    duty: float | None = None
    churn: float = 0.0
    start: float | None = None
    faults: tuple[Fault, ...] = ()


def scenario(plans: Sequence[Plan], patterns: Sequence[tuple[Pattern, int]], settings: Settings) -> Scenario:
    """The node of a specification. `patterns` pairs each workload's pattern with its number of places, in order."""
    places = [Place(index, slot) for index, plan in enumerate(plans) for slot in plan.slots]
    workloads: list[Workload] = []
    faults = list(settings.faults)
    for number, (pattern, count) in enumerate(patterns):
        taken, places = tuple(places[:count]), places[count:]
        faults += _own_faults(pattern, taken)
        if pattern.allocated:
            workloads.append(_make_workload(number, tune(pattern, settings), taken, settings))
    return Scenario(
        tuple(plans), tuple(workloads), tuple(faults), settings.seed, settings.driver, settings.node, settings.start
    )


def tune(pattern: Pattern, settings: Settings) -> Pattern:
    """The pattern with the period and duty asked for; one that never runs stays so."""
    if not pattern.duty or (settings.period is None and settings.duty is None):
        return pattern
    period = pattern.period if settings.period is None else settings.period
    if settings.duty is None:
        return replace(pattern, period=period)
    return replace(pattern, period=period, duty=settings.duty, jitter=0.0, peer_duty=None)


def _own_faults(pattern: Pattern, places: Sequence[Place]) -> list[Fault]:
    if not pattern.fault:
        return []
    kind = KINDS[pattern.fault]
    return [Fault(kind, gpu, kind.begins) for gpu in sorted({place.gpu for place in places})]


def _workload_name(settings: Settings, pattern: Pattern, number: int) -> str:
    name = pattern.name if pattern.name not in {"training", "square"} else f"{pattern.name}-{number}"
    if settings.node == DEFAULT_NODE or settings.scheduler == "slurm":
        return name
    return f"{name}-{crc32(settings.node.encode()):08x}"[: len(name) + 6]


def _make_workload(number: int, pattern: Pattern, places: tuple[Place, ...], settings: Settings) -> Workload:
    user, account, namespace = _PEOPLE[(number + settings.seed) % len(_PEOPLE)]
    mixed = settings.scheduler == "mixed"
    churn = settings.churn * (1 + 0.2 * unit(settings.seed, number))
    # The node's own block of ids: two nodes of one cluster never run the same job by chance.
    job = job_block(f"{settings.node};{settings.seed}") + number
    if settings.node == DEFAULT_NODE:
        job = 4000 + 100 * (settings.seed % 50) + number
    return Workload(
        name=_workload_name(settings, pattern, number),
        pattern=pattern,
        places=places,
        slurm=number % 2 == 0 if mixed else settings.scheduler == "slurm",
        user=user,
        account=account,
        namespace=namespace,
        job=job,
        duration=churn * _CHURN_ALLOCATED if churn else float("inf"),
        every=churn,
    )


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
        known = ", ".join(key for key, each in MODELS.items() if each.slices)
        raise ValueError(f"{model.key} has no MIG; expected -mig with one of {known}")
    plans = [Plan(model, bool(match["mig"]))] * count
    places = sum(len(plan.slots) for plan in plans)
    return plans, _parse_patterns(tail, places, alone=bool(match["mig"])) if colon else _mixed_patterns(
        places, alone=bool(match["mig"])
    )


def _mixed_patterns(places: int, *, alone: bool) -> list[tuple[Pattern, int]]:
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


def _parse_patterns(text: str, places: int, *, alone: bool) -> list[tuple[Pattern, int]]:
    """Patterns with their number of places; on MIG (`alone`) each place is a workload of its own."""
    named = [_parse_pattern(word.strip()) for word in text.split(",")]
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


def _parse_pattern(text: str) -> tuple[Pattern, int | None]:
    match = _PATTERN.fullmatch(text)
    pattern = PATTERNS.get(match["name"]) if match else None
    if not match or pattern is None or match["count"] == "0":
        raise ValueError(f"pattern {text!r}; expected [COUNT*]NAME, NAME one of {', '.join(PATTERNS)}")
    return pattern, int(match["count"]) if match["count"] else None
