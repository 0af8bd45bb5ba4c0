"""Links of a GPU, compared with the best that it ever showed: as designed is not degraded. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median_low

from exporter.core.clock import UnixTime
from exporter.faults.model import Fault, FaultKind, GpuRecord, Observation, ObservedGpu, RepairAction

_CONFIRMATIONS = 3
"""Observations in a row that must find a low PCIe generation: a link needs a moment to speed up under load."""
Starts = Mapping[tuple[str, str], Sequence[tuple[str, int]]]


def shown_levels(observation: Observation) -> Starts:
    """Return what GPUs show of their links, with their UUIDs, by model and field. No bridge is no link."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for seen in observation.gpus:
        for name, value in _current_levels(seen).items():
            if seen.model and value is not None and value > 0:
                found.setdefault((seen.model, name), []).append((seen.uuid, value))
    return found


def with_start(known: GpuRecord, seen: ObservedGpu, starts: Starts, stated: Mapping[str, int]) -> GpuRecord:
    """Return the record with what the operator states as its best, if that is more.

    Without a statement, a GPU without a history begins with the median of its neighbours of the same model.
    """
    for name, value in _current_levels(seen).items():
        others = [each for uuid, each in starts.get((seen.model, name), ()) if uuid != seen.uuid]
        best = getattr(known, name)
        if value and name in stated and best >= 0:
            known = _with_best(known, {name: stated[name]})
        elif value and others and not best:
            known = _with_best(known, {name: median_low(others)})
    return known


def with_history(known: GpuRecord, before: GpuRecord, seen: ObservedGpu, stated: Mapping[str, int]) -> GpuRecord:
    """Return the record with the best that the GPU itself showed: a statement that is corrected leaves nothing."""
    shown = {name: value or 0 for name, value in _current_levels(seen).items() if name in stated}
    return replace(known, **{name: max(getattr(before, name), value) for name, value in shown.items()})


def _with_best(known: GpuRecord, values: Mapping[str, int | None]) -> GpuRecord:
    best = {name: max(getattr(known, name), value) for name, value in values.items() if value is not None}
    return replace(known, **best)


def below_best(
    known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault], now: UnixTime
) -> tuple[GpuRecord, tuple[Fault, ...]]:
    """Return the record with the best so far, and `faults` with those of links that are below it, each at its worst.

    Links that never were up (no bridge) are no fault.
    """
    slow = seen.loaded and seen.generation is not None and seen.generation < known.generation
    known = replace(known, low_generation=known.low_generation + 1 if slow else 0)
    low = {
        kind: (value, best)
        for kind, (value, best) in _link_levels(known, seen).items()
        if value is not None and value < best
        if kind is not FaultKind.PCIE_GENERATION or known.low_generation >= _CONFIRMATIONS
    }
    standing = tuple(_at_worst(fault, *low[fault.kind]) if fault.kind in low else fault for fault in faults)
    new = (
        Fault(seen.uuid, seen.index, kind, _EVIDENCE[kind](*level), RepairAction.INSPECT, now)
        for kind, level in low.items()
        if kind not in {fault.kind for fault in standing}
    )
    shown = {"links": seen.links, "width": seen.width, "generation": seen.generation}
    return _with_best(known, shown), (*standing, *new)


def _at_worst(fault: Fault, value: int, best: int) -> Fault:
    """Return the fault with the evidence of now, if that is worse."""
    text = _EVIDENCE[fault.kind]
    better = {text(each, best) for each in range(value + 1, best)}
    return replace(fault, evidence=text(value, best)) if fault.evidence in better else fault


def at_best(known: GpuRecord, seen: ObservedGpu) -> frozenset[FaultKind]:
    """Return the kinds of fault whose link is as good as it ever was."""
    levels = _link_levels(known, seen).items()
    return frozenset(kind for kind, (value, best) in levels if value is not None and value >= best)


def says_nothing(known: GpuRecord, seen: ObservedGpu, faults: Iterable[Fault]) -> bool:
    """Return whether links have faults and nothing is known of them now, as of the generation of an idle GPU."""
    levels = _link_levels(known, seen)
    values = [levels[fault.kind][0] for fault in faults if fault.kind in levels]
    return bool(values) and all(value is None for value in values)


_EVIDENCE: Mapping[FaultKind, Callable[[int, int], str]] = {
    FaultKind.NVLINK: lambda value, best: f"{best - value} of {best} links down",
    FaultKind.PCIE_WIDTH: lambda value, best: f"{value} of {best} PCIe lanes",
    FaultKind.PCIE_GENERATION: lambda value, best: f"PCIe generation {value} of {best} under load",
}


def _link_levels(known: GpuRecord, seen: ObservedGpu) -> Mapping[FaultKind, tuple[int | None, int]]:
    """Return what each link shows, and its best."""
    now = _current_levels(seen)
    generation = seen.generation if (seen.generation or 0) >= known.generation else now["generation"]
    return {
        FaultKind.NVLINK: (seen.links, known.links),
        FaultKind.PCIE_WIDTH: (seen.width, known.width),
        FaultKind.PCIE_GENERATION: (generation, known.generation),
    }


def _current_levels(seen: ObservedGpu) -> Mapping[str, int | None]:
    """Return what counts now, by the field of GpuRecord that keeps the best: idle GPUs lower their generation."""
    return {"links": seen.links, "width": seen.width, "generation": seen.generation if seen.loaded else None}
