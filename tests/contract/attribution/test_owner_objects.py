"""Owners of pods asked of an API server over HTTP: rights, uids, failures, and how often it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.kubernetes.api_server import ApiServer
from exporter.attribution.kubernetes.owner_objects import RETRY_SECONDS, Key, OwnerObjects, PodRoots
from exporter.attribution.kubernetes.pod import Pod
from exporter.attribution.kubernetes.projects import Reference
from exporter.attribution.kubernetes.root import OwnerLookup, OwnerUnavailable, TopLevelOwner, pod_info
from exporter.attribution.source import HOLD_SECONDS
from exporter.core.clock import MonotonicTime

REPLICAS = Reference("apps/v1", "ReplicaSet", "chat-7d9c5b8d4f", "r")
POD = Pod("ml", "chat-7d9c5b8d4f-x2x7k", "p", controller=REPLICAS, projects={"pod-template-hash": "7d9c5b8d4f"})
BELOW_CHAT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", "uid": "d", "controller": True}
OBJECTS: Mapping[str, Any] = {
    "/apis/apps/v1/namespaces/ml/replicasets/chat-7d9c5b8d4f": {"uid": "r", "ownerReferences": [BELOW_CHAT]},
    "/apis/apps/v1/namespaces/ml/deployments/chat": {"uid": "d"},
}


class Api:
    """Metadata by path; `status` instead of all of it."""

    def __init__(self) -> None:
        self.objects = dict(OBJECTS)
        self.specs: dict[str, Any] = {}
        self.status = 200
        self.asked: list[tuple[str, str]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.asked.append((self.path, self.headers["Accept"]))
                status = api.status if self.path in api.objects else 404
                self.send_response(status)
                self.end_headers()
                answer = {"metadata": api.objects.get(self.path), "spec": api.specs.get(self.path, {})}
                self.wfile.write(json.dumps(answer).encode() if status == 200 else b"")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Clock:
    now = MonotonicTime(1000.0)

    def __call__(self) -> MonotonicTime:
        return self.now


@pytest.fixture
def objects(api: Api, tmp_path: Path) -> OwnerObjects:
    """Not started: it asks in the caller's thread."""
    (tmp_path / "token").write_text("secret")
    return OwnerObjects(ApiServer(api.url, tmp_path), clock=Clock())


NAME = (POD.namespace, POD.name)


def test_root_is_found_by_metadata_alone_and_asked_for_once(api: Api, objects: OwnerObjects) -> None:
    roots = PodRoots(objects)
    found = [roots.of({NAME: POD}, MonotonicTime(now), may_come=True) for now in (1.0, 2.0, 400.0)]

    assert found == [{NAME: TopLevelOwner("chat", "Deployment")}] * 3
    assert api.paths == list(OBJECTS)
    assert all("PartialObjectMetadata" in accept for _, accept in api.asked)
    health = objects.health()
    assert health
    assert health.success


def test_pods_of_a_job_that_know_their_number_are_as_many_as_run_at_once(api: Api, objects: OwnerObjects) -> None:
    path = "/apis/batch/v1/namespaces/ml/jobs/train"
    api.objects = {path: {"uid": "j"}}
    api.specs = {path: {"parallelism": 4, "completionMode": "Indexed"}}
    reference = Reference("batch/v1", "Job", "train", "j")

    found = PodRoots(objects).of({NAME: replace(POD, controller=reference)}, MonotonicTime(1.0), may_come=True)

    assert found == {NAME: TopLevelOwner("train", "Job", pods=4)}
    assert api.asked == [(path, "application/json")]
    assert pod_info(replace(POD, group_size=2), "p", "", "exact", found[NAME]).pods == 4


def test_what_the_role_does_not_allow_is_no_failure_and_is_not_asked_for_every_pod(
    api: Api, objects: OwnerObjects
) -> None:
    api.status = 403
    roots = PodRoots(objects)
    made = [REPLICAS._replace(name=f"r{number}") for number in range(20)]
    pods = {("ml", f"p{number}"): Pod("ml", f"p{number}", "u", controller=each) for number, each in enumerate(made)}
    api.objects = {f"/apis/apps/v1/namespaces/ml/replicasets/r{number}": {} for number in range(20)}
    found = roots.of(pods, MonotonicTime(1.0), may_come=True)

    assert len(api.asked) == 1
    assert found["ml", "p3"] == TopLevelOwner("r3", "ReplicaSet", inferred=True)
    health = objects.health()
    assert health
    assert health.success


def test_server_that_fails_shows_in_its_health_and_is_asked_again(api: Api, objects: OwnerObjects) -> None:
    clock = objects._clock
    assert isinstance(clock, Clock)
    api.status = 500
    roots = PodRoots(objects)
    inferred = roots.of({NAME: POD}, MonotonicTime(1.0), may_come=True)
    failing = objects.health()
    api.status = 200
    clock.now += RETRY_SECONDS
    exact = roots.of({NAME: POD}, MonotonicTime(400.0), may_come=True)

    assert inferred == {NAME: TopLevelOwner("chat", "Deployment", inferred=True)}
    assert failing
    assert not failing.success
    assert exact == {NAME: TopLevelOwner("chat", "Deployment")}


def test_object_of_another_uid_is_not_the_owner(api: Api, objects: OwnerObjects) -> None:
    api.objects["/apis/apps/v1/namespaces/ml/deployments/chat"] = {"uid": "somebody else's"}

    assert PodRoots(objects).of({NAME: POD}, MonotonicTime(1.0), may_come=True)[NAME].inferred


@pytest.mark.parametrize(
    "reference",
    [
        REPLICAS._replace(name="../../../../v1/secrets"),
        REPLICAS._replace(version="v1"),
        REPLICAS._replace(version="apps/v1/../.."),
        REPLICAS._replace(kind="Secret"),
        REPLICAS._replace(name=""),
    ],
)
def test_reference_that_would_ask_for_something_else_is_not_asked(
    reference: Reference, api: Api, objects: OwnerObjects
) -> None:
    assert objects.above("ml", reference) is OwnerUnavailable.UNKNOWN
    assert not api.asked


def test_objects_that_no_pod_needs_are_forgotten(api: Api, objects: OwnerObjects) -> None:
    roots = PodRoots(objects)
    roots.of({NAME: POD}, MonotonicTime(1.0), may_come=True)
    roots.of({}, MonotonicTime(2.0), may_come=True)
    again = objects.above("ml", REPLICAS)

    assert isinstance(again, OwnerLookup)
    assert api.paths == [*OBJECTS, next(iter(OBJECTS))]


class Silent(OwnerObjects):
    """Never has an answer, as while the server hangs."""

    def above(self, namespace: str, reference: Reference) -> OwnerLookup | OwnerUnavailable:
        del namespace, reference
        return OwnerUnavailable.PENDING

    def keep(self, keys: object) -> None:
        del keys


def test_pod_waits_for_its_owners_for_a_moment_and_then_goes_by_its_name(tmp_path: Path) -> None:
    roots = PodRoots(Silent(ApiServer("http://127.0.0.1:1", tmp_path)))
    found = [roots.of({NAME: POD}, MonotonicTime(now), may_come=True) for now in (0.0, HOLD_SECONDS)]

    assert found == [{}, {NAME: TopLevelOwner("chat", "Deployment", inferred=True)}]


def test_pod_that_the_api_server_has_not_told_of_yet_waits_too() -> None:
    roots = PodRoots()
    waiting = roots.of({NAME: None}, MonotonicTime(0.0), may_come=True)
    told = roots.of({NAME: POD}, MonotonicTime(1.0), may_come=True)
    never = PodRoots().of({NAME: None}, MonotonicTime(0.0), may_come=False)

    assert waiting == {}
    assert told == {NAME: TopLevelOwner("chat", "Deployment", inferred=True)}
    assert never == told


def test_owner_of_a_pod_stays_when_the_api_server_forgets_it(objects: OwnerObjects) -> None:
    roots = PodRoots(objects)
    exact = roots.of({NAME: POD}, MonotonicTime(1.0), may_come=True)

    assert roots.of({NAME: None}, MonotonicTime(2.0), may_come=True) == exact


def test_key_of_another_namespace_is_another_object(api: Api, objects: OwnerObjects) -> None:
    assert objects.above("other", REPLICAS) is OwnerUnavailable.UNKNOWN
    assert api.paths == ["/apis/apps/v1/namespaces/other/replicasets/chat-7d9c5b8d4f"]
    assert Key("other", REPLICAS) != Key("ml", REPLICAS)
