"""Objects above pods, read from the API server one by one: their metadata alone, and only of kinds known here.

A Job is read whole, for the number of its pods that run at once. The role needs `get` on those kinds and nothing else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import decoded, part, text, whole
from exporter.attribution.kubernetes import projects
from exporter.attribution.kubernetes.api_server import ApiServer, StatusError
from exporter.attribution.kubernetes.pod import Pod, PodName, controller_of, job_pods
from exporter.attribution.kubernetes.projects import Reference
from exporter.attribution.kubernetes.root import OwnerLookup, OwnerUnavailable, TopLevelOwner, by_name, top_level_owner
from exporter.attribution.owner import SourceHealth
from exporter.attribution.source import FirstSeen
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

SOURCE = "kubernetes_owners"
RETRY_SECONDS = 300.0
"""Time after which an object that could not be read is asked for again."""
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
_WHOLE = "application/json"
_NOT_ALLOWED = (401, 403)
_NOT_THERE = (404, 410)


class Key(NamedTuple):
    namespace: str
    reference: Reference


class OwnerObjects:
    """Owners of objects. Each is asked for once, in a thread, and kept while a pod here needs it."""

    def __init__(self, server: ApiServer, *, clock: MonotonicClock = monotonic_time) -> None:
        self._server = server
        self._clock = clock
        self._lookup: Lookup[Key, OwnerLookup] = Lookup(
            SOURCE.replace("_", "-"), self._read, retry=RETRY_SECONDS, clock=clock
        )
        self._refused: dict[str, MonotonicTime] = {}
        """Resources that the role does not allow, with the time of the refusal."""
        self._error = ""

    def start(self, threads: Threads) -> None:
        self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def above(self, namespace: str, reference: Reference) -> OwnerLookup | OwnerUnavailable:
        """Return the object of a reference. Waits for a moment at most."""
        key = Key(namespace, reference)
        if not _object_path(key):
            return OwnerUnavailable.UNKNOWN
        found = self._lookup.get(key)
        return found or (OwnerUnavailable.PENDING if self._lookup.waits(key) else OwnerUnavailable.UNKNOWN)

    def keep(self, keys: Collection[Key]) -> None:
        """Forget all others."""
        self._lookup.keep(keys)

    def health(self) -> SourceHealth | None:
        """Return the health; None before the first question. A resource that the role does not allow is no failure."""
        health = self._lookup.health()
        if not health:
            return None
        in_time, waiting = health
        return SourceHealth(SOURCE, in_time and not self._error, waiting)

    def _read(self, key: Key) -> OwnerLookup | None:
        """Return the object; None if it is not known: then it is asked for again later."""
        resource = f"{projects.group(key.reference)}/{key.reference.kind}"
        refused = self._refused.get(resource)
        if refused is not None and self._clock() - refused < RETRY_SECONDS:
            return None
        self._error = ""
        try:
            found = self._request_object(key)
        except SourceError as error:
            status = error.status if isinstance(error, StatusError) else None
            if status not in (*_NOT_ALLOWED, *_NOT_THERE):
                self._error = str(error)
            if status in _NOT_ALLOWED:
                if refused is None:
                    log.info("the API server does not let %s be read: owners above it are inferred", resource)
                self._refused[resource] = self._clock()
            return None
        self._refused.pop(resource, None)
        return found

    def _request_object(self, key: Key) -> OwnerLookup | None:
        """Return the object; None if its uid is another one: users can write any reference."""
        accept = _WHOLE if projects.group(key.reference) == "batch" and key.reference.kind == "Job" else _METADATA
        answer = decoded(whole(self._server.lines(_object_path(key), {}, stream=False, accept=accept)))
        metadata = part(answer, "metadata")
        if not key.reference.uid or text(metadata, "uid") != key.reference.uid:
            return None
        return OwnerLookup(controller_of(metadata), job_pods(part(answer, "spec")))


_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_VERSION = re.compile(r"[a-z0-9.-]{1,100}/v[0-9][a-z0-9]{0,15}")


def _object_path(key: Key) -> str:
    """Return the path of an object; empty for an unknown kind or an invalid name."""
    reference = key.reference
    resource = projects.resource(reference)
    named = _NAME.fullmatch(reference.name) and _NAME.fullmatch(key.namespace) and _VERSION.fullmatch(reference.version)
    if not resource or not named:
        return ""
    return f"/apis/{reference.version}/namespaces/{key.namespace}/{resource}/{reference.name}"


class PodRoots:
    """Top-level owners of this node's pods: asked for until they are known, then kept while the pod is there.

    Without the API server, and for pods that it has not reported, only names are used.
    """

    def __init__(self, objects: OwnerObjects | None = None) -> None:
        self._objects = objects
        self._known: dict[PodName, tuple[Pod | None, TopLevelOwner]] = {}
        """Final owners, with the pod that they were found for."""
        self._first = FirstSeen()
        self._keys: dict[PodName, set[Key]] = {}

    def of(
        self, pods: Mapping[PodName, Pod | None], now: MonotonicTime, *, may_come: bool
    ) -> Mapping[PodName, TopLevelOwner]:
        """Return the owners by pod. A pod whose owners are still being asked for is left out for HOLD_SECONDS at most.

        `pods` has None for one that the API server has not reported; `may_come`: whether it may yet.
        """
        recent = self._first.recent(pods, now)
        self._keys = {name: keys for name, keys in self._keys.items() if name in pods}
        found: dict[PodName, TopLevelOwner] = {}
        known: dict[PodName, tuple[Pod | None, TopLevelOwner]] = {}
        for name, pod in pods.items():
            known_root = self._known.get(name)
            if known_root and _has_same_owners(known_root[0], pod):
                known[name], found[name] = known_root, known_root[1]
                continue
            root = self._resolve_owner(name, pod)
            if root and (pod or not may_come) and not (root.inferred and self._objects and pod):
                known[name] = (pod, root)
            late = name not in recent
            if root and (pod or late or not may_come):
                found[name] = root
            elif late:
                found[name] = known_root[1] if known_root else by_name(name[1])
        self._known = known
        if self._objects:
            self._objects.keep({key for keys in self._keys.values() for key in keys})
        return found

    def _resolve_owner(self, name: PodName, pod: Pod | None) -> TopLevelOwner | None:
        """Return the owner; None while an object is being asked for."""
        if pod is None:
            return by_name(name[1])
        keys = self._keys.setdefault(name, set())

        def ask(reference: Reference) -> OwnerLookup | OwnerUnavailable:
            if self._objects is None:
                return OwnerUnavailable.UNKNOWN
            keys.add(Key(pod.namespace, reference))
            return self._objects.above(pod.namespace, reference)

        return top_level_owner(pod, ask)


def _has_same_owners(before: Pod | None, pod: Pod | None) -> bool:
    """Return whether the facts about owners are the same; a pod that the API server forgot keeps its owner."""
    if pod is None or before is None:
        return pod is before or pod is None
    return (before.uid, before.controller, before.projects) == (pod.uid, pod.controller, pod.projects)
