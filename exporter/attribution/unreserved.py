"""Who runs on a GPU that was not given to him, where somebody gives GPUs out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from exporter.attribution.host_owners import HostNow
from exporter.attribution.kubernetes.pod_owners import PodsNow
from exporter.attribution.owner import NOBODY, Owner
from exporter.attribution.slurm.job_owners import JobsNow
from exporter.core.clock import MonotonicTime

SETTLE_SECONDS = 15.0
"""A process is there sooner than the scheduler's word on it: so long nobody is named."""


class UnreservedUse:
    """Keeps which GPUs schedulers have ever given out: one that is given to nobody now is still theirs to give."""

    def __init__(self) -> None:
        self._given_before: frozenset[str] = frozenset()
        self._since: dict[tuple[str, Owner], MonotonicTime] = {}
        self.open = False
        """Whether somebody has yet to be named."""

    def of(
        self,
        given: Mapping[str, Collection[Owner]],
        offered: Collection[str],
        runners: Mapping[str, Iterable[Owner]],
        unsure: Callable[[Owner, str], bool],
        now: MonotonicTime,
    ) -> Mapping[str, frozenset[Owner]]:
        """Return, by target, those that run there although no source says that they were given it.

        `offered` is what schedulers say they give out. `unsure` returns whether a source says that an owner was given
        a target, or could say so and does not answer.
        """
        self._given_before |= given.keys()
        theirs = self._given_before.union(offered)
        found = {
            (uuid, owner)
            for uuid, owners in runners.items()
            if uuid in theirs
            for owner in owners
            if owner != NOBODY and not unsure(owner, uuid) and not _holds(owner, given.get(uuid, ()))
        }
        self._since = {each: self._since.get(each, now) for each in found}
        settled: dict[str, set[Owner]] = {}
        for (uuid, owner), since in self._since.items():
            if now - since >= SETTLE_SECONDS:
                settled.setdefault(uuid, set()).add(owner)
        self.open = any(now - since < SETTLE_SECONDS for since in self._since.values())
        return {uuid: frozenset(owners) for uuid, owners in settled.items()}


def unsure_of(pods: PodsNow, jobs: JobsNow, host: HostNow) -> Callable[[Owner, str], bool]:
    """Return what tells whether a source is silent about an owner, or says that it was given the target."""
    claimed = {
        (owner, uuid) for job, owner in jobs.owners.items() if job in jobs.given for uuid in jobs.given[job].claimed
    }

    def unsure(owner: Owner, uuid: str) -> bool:
        if owner.kind == "pod":
            return pods.may_hold(owner)
        silent = owner in jobs.unsure or (owner.kind == "nomad" and host.view.silent)
        return silent or (owner, uuid) in claimed

    return unsure


def _holds(owner: Owner, holders: Iterable[Owner]) -> bool:
    """What one container of a pod was given is the whole pod's."""
    return any(
        holder == owner or (owner.pod and (holder.namespace, holder.pod) == (owner.namespace, owner.pod))
        for holder in holders
    )
