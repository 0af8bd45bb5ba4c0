"""Links of a GPU, compared with the best that it ever showed: as designed is not degraded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from exporter.core.clock import UnixTime
from exporter.faults.model import Fault, FaultKind, GpuRecord, Observation, ObservedGpu, RepairAction

_CONFIRMATIONS = 3
"""Observations in a row that must find a low PCIe generation: a link needs a moment to speed up under load."""
Starts = Mapping[tuple[str, str], Sequence[tuple[str, int]]]


def starts(observation: Observation) -> Starts:
    """Return what GPUs show of their links, with their UUIDs, by model and field. No bridge is no link."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for seen in observation.gpus:
        for name, value in _current_levels(seen).items():
            if seen.model and value is not None and value > 0:
                found.setdefault((seen.model, name), []).append((seen.uuid, value))
    return found


def with_start(known: GpuRecord, seen: ObservedGpu, starts: Starts, stated: Mapping[str, int]) -> GpuRecord:
    """Let a GPU without a history begin with what the operator states, else with the median of its neighbours."""
    for name, value in _current_levels(seen).items():
        others = [each for uuid, each in starts.get((seen.model, name), ()) if uuid != seen.uuid]
        start = stated.get(name) or (median_low(others) if others else None)
        if not getattr(known, name) and value:
            known = _with_best(known, {name: start})
    return known


def _with_best(known: GpuRecord, values: Mapping[str, int | None]) -> GpuRecord:
    best = {name: max(getattr(known, name), value) for name, value in values.items() if value is not None}
    return replace(known, **best)


def below_best(
    known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Find links below their best, and remember the best. Links that never were up (no bridge) are no fault."""
    kinds = {fault.kind for fault in faults}
    slow = seen.loaded and seen.generation is not None and seen.generation < known.generation
    known = replace(known, low_generation=known.low_generation + 1 if slow else 0)
    found = tuple(
        Fault(seen.uuid, seen.index, kind, evidence, RepairAction.INSPECT, now)
        for kind, (value, best, evidence) in _levels(known, seen).items()
        if value is not None and value < best and kind not in kinds
        if kind is not FaultKind.PCIE_GENERATION or known.low_generation >= _CONFIRMATIONS
    )
    shown = {"links": seen.links, "width": seen.width, "generation": seen.generation}
    return _with_best(known, shown), found


def at_best(known: GpuRecord, seen: ObservedGpu) -> frozenset[FaultKind]:
    """Return the kinds of fault whose link is as good as it ever was."""
    levels = _levels(known, seen).items()
    return frozenset(kind for kind, (value, best, _) in levels if value is not None and value >= best)


def _levels(known: GpuRecord, seen: ObservedGpu) -> Mapping[FaultKind, tuple[int | None, int, str]]:
    """Return what each link shows, its best, and how to report less."""
    now = _current_levels(seen)
    generation = seen.generation if (seen.generation or 0) >= known.generation else now["generation"]
    links = f"{known.links - (seen.links or 0)} of {known.links} links down"
    low = f"PCIe generation {seen.generation} of {known.generation} under load"
    return {
        FaultKind.NVLINK: (seen.links, known.links, links),
        FaultKind.PCIE_WIDTH: (seen.width, known.width, f"{seen.width} of {known.width} PCIe lanes"),
        FaultKind.PCIE_GENERATION: (generation, known.generation, low),
    }


def _current_levels(seen: ObservedGpu) -> Mapping[str, int | None]:
    """Return what counts now, by the field of GpuRecord that keeps the best: idle GPUs lower their generation."""
    return {"links": seen.links, "width": seen.width, "generation": seen.generation if seen.loaded else None}
