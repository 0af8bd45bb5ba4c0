"""The seam of attribution: what every source of owners implements, and what it reports in one sampling cycle.

To add a source, write one class with the methods of `OwnerSource` and put it into the list of sources by its trust.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from exporter.attribution.owner import NOBODY, Owner, SourceHealth, WorkloadInfo
from exporter.attribution.process_index import ProcessGroup, ProcessIndex
from exporter.core.clock import MonotonicTime
from exporter.core.record import record
from exporter.core.threads import Threads

Amounts = Mapping[str, float | None]
"""Target uuid to the amount allocated of it (replicas, shards), None where the source states none."""


@record
class Match:
    """The owners that a process may have, by the word of one source.

    Exactly one names the process. None or several claim it for the source and leave it unnamed.
    """

    owners: frozenset[Owner] = frozenset()

    @property
    def owner(self) -> Owner:
        """The only owner, or NOBODY."""
        return next(iter(self.owners)) if len(self.owners) == 1 else NOBODY


UNNAMED = Match()
"""For a process whose name is still being asked for, or cannot be told."""


def named(owner: Owner | None) -> Match:
    """Return the match of one owner; None is one without a name as yet."""
    return Match(frozenset({owner})) if owner else UNNAMED


@record
class View:
    """What one source reports at one moment."""

    names: Mapping[int, Match] = field(default_factory=dict[int, Match])
    """By pid: the processes that the source knows."""
    places: Mapping[str, Match] = field(default_factory=dict[str, Match])
    """By path: the cgroups of `ProcessIndex.places` that it knows."""
    allocated: Mapping[Owner, Amounts] = field(default_factory=dict[Owner, Amounts])
    """What each owner was allocated; empty amounts for one that the source knows to have nothing."""
    offered: frozenset[str] = frozenset()
    """Uuids of the targets that the source allocates here, to whomever."""
    info: Mapping[Owner, WorkloadInfo] = field(default_factory=dict[Owner, WorkloadInfo])
    cgroups: Mapping[Owner, str] = field(default_factory=dict[Owner, str])
    """The owner's own cgroup; empty where it is in several."""
    unsure: frozenset[Owner] = frozenset()
    """Owners that may have been allocated more than the source reports: they are not accused."""
    health: tuple[SourceHealth, ...] = ()


class Reader(Protocol):
    """What reads for a source in threads of its own."""

    def start(self, threads: Threads) -> None:
        """Start the threads."""

    def stop(self) -> None:
        """Stop them."""


class OwnerSource(Protocol):
    """One source of owners."""

    @property
    def readers(self) -> Sequence[Reader]:
        """What reads for it."""
        ...

    def view(self, processes: ProcessIndex, now: MonotonicTime) -> View:
        """Return what the source knows of these processes, and what it allocated. Never waits."""
        ...


def by_pid(found: Iterable[tuple[ProcessGroup, Owner | None]]) -> dict[int, Match]:
    """Return the match of each process of the groups; None is an owner without a name as yet."""
    return {pid: match for group, owner in found for match in (named(owner),) for pid in group.pids}


def own_cgroups(found: Iterable[tuple[Owner, str]]) -> dict[Owner, str]:
    """Return the cgroup of each owner; empty for one that was found in several."""
    paths: dict[Owner, str] = {}
    for owner, path in found:
        if paths.setdefault(owner, path) != path:
            paths[owner] = ""
    return paths
