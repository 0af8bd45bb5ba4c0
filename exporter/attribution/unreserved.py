"""Who runs on a GPU that was not given to him, where somebody gives GPUs out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from exporter.attribution.owner import NOBODY, Owner
from exporter.core.clock import MonotonicTime

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
