"""The root owners of this node's pods: asked for until they are known, then kept while the pod is there."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.attribution.kubernetes.owner_objects import Key, OwnerObjects
from exporter.attribution.kubernetes.pod import Pod, Reference
from exporter.attribution.kubernetes.root import Above, Missing, Root, by_name, root_of
from exporter.attribution.process_index import HOLD_SECONDS
from exporter.core.clock import MonotonicTime

PodName = tuple[str, str]


class PodRoots:
    """Without the API server, and for pods that it has not reported, names alone are judged."""

    def __init__(self, objects: OwnerObjects | None = None) -> None:
        self._objects = objects
        self._known: dict[PodName, tuple[Pod | None, Root]] = {}
        """What is settled, with what it was judged by."""
        self._first: dict[PodName, MonotonicTime] = {}
        self._keys: dict[PodName, set[Key]] = {}

    def of(self, pods: Mapping[PodName, Pod | None], now: MonotonicTime, *, may_come: bool) -> Mapping[PodName, Root]:
        """By pod; those whose owners are still being asked for are left out for HOLD_SECONDS at most.

        `pods` has None for one that the API server has not reported; `may_come`: whether it may yet.
        """
        self._first = {name: self._first.get(name, now) for name in pods}
        self._keys = {name: keys for name, keys in self._keys.items() if name in pods}
        found: dict[PodName, Root] = {}
        known: dict[PodName, tuple[Pod | None, Root]] = {}
        for name, pod in pods.items():
            known_root = self._known.get(name)
            if known_root and _same(known_root[0], pod):
                known[name], found[name] = known_root, known_root[1]
                continue
            root = self._judged(name, pod)
            if root and (pod or not may_come) and not (root.inferred and self._objects and pod):
                known[name] = (pod, root)
            late = now - self._first[name] >= HOLD_SECONDS
            if root and (pod or late or not may_come):
                found[name] = root
            elif late:
                found[name] = known_root[1] if known_root else by_name(name[1])
        self._known = known
        if self._objects:
            self._objects.keep({key for keys in self._keys.values() for key in keys})
        return found

    def _judged(self, name: PodName, pod: Pod | None) -> Root | None:
        """None while an owner is being asked for."""
        if pod is None:
            return by_name(name[1])
        keys = self._keys.setdefault(name, set())

        def ask(reference: Reference) -> Above | Missing:
            if self._objects is None:
                return Missing.UNKNOWN
            keys.add(Key(pod.namespace, reference))
            return self._objects.above(pod.namespace, reference)

        return root_of(pod, ask)


def _same(judged: Pod | None, pod: Pod | None) -> bool:
    """Whether nothing that names are judged by has changed; a pod that the API server forgot keeps its owner."""
    if pod is None or judged is None:
        return pod is judged or pod is None
    return (judged.uid, judged.controller, judged.projects) == (pod.uid, pod.controller, pod.projects)
