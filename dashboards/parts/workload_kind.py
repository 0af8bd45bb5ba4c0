"""Kinds of workloads, each with a dashboard of its own."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.parts import link
from dashboards.parts.table import Key

BY_WORKLOAD = "{{workload}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of workload: its name, its series, and the labels that name its owner."""

    noun: str
    scope: str
    """Label matchers of the owner series in the selection."""
    shown: str
    """The same, of the few that graphs show."""
    owner_keys: tuple[Key, ...]
    onward: link.Link
