"""What tells one kind of workload from another on its dashboard."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.parts import link
from dashboards.parts.table import Key

BY_WORKLOAD = "{{workload}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a kind of workload is called, which series are its, and which labels name its owner."""

    noun: str
    scope: str
    """Label matchers of the owner series in the selection."""
    shown: str
    """The same, of the few that graphs show."""
    owner_keys: tuple[Key, ...]
    onward: link.Link
