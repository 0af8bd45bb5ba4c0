"""Faults that were cleared: the check leaves their evidence out."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.faults.facts import Facts
from exporter.faults.model import Kind
from exporter.faults.rule import Cause, Find, Limits


def cleared_at(facts: Facts, kind: Kind, uuid: str) -> float:
    """Return when this kind of fault was last cleared on a GPU, in Unix seconds; 0 if never."""
    return facts.value("gpu_fault_cleared_timestamp_seconds", fault=kind.value, uuid=uuid) or 0.0


def unless_cleared(find: Find, kind: Kind) -> Find:
    """Leave out the GPUs on which somebody acknowledged this kind of fault while it stands."""

    def rest(facts: Facts, limits: Limits) -> Iterable[Cause]:
        found = find(facts, limits)
        return ((gpu, values) for gpu, values in found if not cleared_at(facts, kind, str(values.get("uuid", ""))))

    return rest
