"""The fraction of a target that each owner has, and the use of targets that were not allocated to the user."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from exporter.attribution.owner import NOBODY, Owner
from exporter.core.clock import MonotonicTime
from exporter.core.units import Share

H = TypeVar("H")


def within_pods(given: Mapping[Owner, float | None], runners: Collection[Owner]) -> Mapping[Owner, float | None]:
    """Return what each container has of a target: those of one pod hold it together.

    A pod that uses its GPU is not idle there. Those of the listed containers that run on it have what the others
    leave. If none of them runs, what else of the pod runs there has it: its source lists no init container and no
    workload of another scheduler inside, and which container runs is not always known.
    """
    pods: dict[tuple[str, str], list[Owner]] = defaultdict(list)
    for owner in given:
        if owner.kind == "pod":
            pods[owner.pod_name].append(owner)
    found = dict(given)
    for name, containers in pods.items():
        running = [owner for owner in containers if owner in runners]
        running = running or [owner for owner in runners if owner.pod_name == name]
        if not running or running == containers:
            continue
        amounts = [found.pop(owner) for owner in containers]
        known = [amount for amount in amounts if amount is not None]
        part = sum(known) / len(running) if len(known) == len(amounts) else None
        found |= dict.fromkeys(running, part)
    return found


def weights(given: Mapping[H, float | None], runners: Iterable[H]) -> Mapping[H, Share]:
    """Parts of one target, summing to 1: by amount where every holder has one, else evenly.

    Those who merely run on what others were given have no part of it; where nobody was given it, they share it.
    """
    runners = tuple(runners)
    amounts = given or dict.fromkeys(runners)
    stated = [amount for amount in amounts.values() if amount]
    if len(stated) == len(amounts) and stated:
        total = sum(stated)
        parts = {holder: Share((amount or 0.0) / total) for holder, amount in amounts.items()}
    else:
        parts = {holder: Share(1.0 / len(amounts)) for holder in amounts}
    return {**dict.fromkeys(runners, Share(0.0)), **parts}


SETTLE_SECONDS = 15.0
"""A process is there sooner than the scheduler's word on it: so long nobody is named."""


class UnreservedUse:
    """Keeps which GPUs schedulers have ever given out: one that is given to nobody now is still theirs to give."""

    def __init__(self) -> None:
        self._given_before: frozenset[str] = frozenset()
        self._since: dict[tuple[str, Owner], MonotonicTime] = {}

    def of(
        self,
        given: Mapping[str, Collection[Owner]],
        offered: Collection[str],
        runners: Mapping[str, Iterable[Owner]],
        unsure: Collection[Owner],
        now: MonotonicTime,
    ) -> Mapping[str, frozenset[Owner]]:
        """Return, by target, those that run there although no source says that they were given it.

        `given` is the word of every source, `offered` what schedulers say they give out. `unsure` are owners that may
        have been given more than the sources report.
        """
        self._given_before |= given.keys()
        theirs = self._given_before.union(offered)
        found = {
            (uuid, owner)
            for uuid, owners in runners.items()
            if uuid in theirs
            for owner in owners
            if owner != NOBODY and owner not in unsure and not _holds(owner, given.get(uuid, ()))
        }
        self._since = {each: self._since.get(each, now) for each in found}
        settled: dict[str, set[Owner]] = {}
        for (uuid, owner), since in self._since.items():
            if now - since >= SETTLE_SECONDS:
                settled.setdefault(uuid, set()).add(owner)
        return {uuid: frozenset(owners) for uuid, owners in settled.items()}


def _holds(owner: Owner, holders: Iterable[Owner]) -> bool:
    """What one container of a pod was given is the whole pod's."""
    return any(
        holder == owner or (owner.pod and (holder.namespace, holder.pod) == (owner.namespace, owner.pod))
        for holder in holders
    )
