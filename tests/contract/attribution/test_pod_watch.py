"""The pods of a node from an API server: list, watch, token rotation, failures. A real HTTP server on loopback."""

from __future__ import annotations

import json
import queue
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.attribution.kubernetes.api_server import ApiServer, PodWatch
from exporter.attribution.kubernetes.pod import Pod, pod_of
from tests.attribution_kit.nodes import becomes, until

CONTAINER = "3f05ee050f82c0145f1d88c94269c39dff0f07dbf8bba20aafd54b3a75dcaecc"


def document(name: str, uid: str, labels: dict[str, str] | None = None, **annotations: str) -> dict[str, Any]:
    status = {
        "startTime": "2026-11-21T08:00:00Z",
        "containerStatuses": [{"name": "main", "image": "repo/train:1", "containerID": f"containerd://{CONTAINER}"}],
    }
    metadata = {
        "namespace": "ml", "name": name, "uid": uid, "resourceVersion": "5", "labels": labels or {},
        "annotations": annotations,
    }  # fmt: skip
    return {"metadata": metadata, "status": status, "spec": {"nodeName": "n1", "secrets": "are not kept"}}


class Api:
    """Pods, streams of watch events by node, and what was asked for. Selects by `spec.nodeName`, as the real one."""

    def __init__(self) -> None:
        self.pods: list[dict[str, Any]] = []
        self.streams: defaultdict[str, queue.Queue[dict[str, Any] | None]] = defaultdict(queue.Queue)
        self.events = self.streams["n1"]
        self.asked: list[tuple[str, dict[str, list[str]], str]] = []
        self.status = 200
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = parse_qs(url.query)
                api.asked.append((url.path, query, self.headers.get("Authorization", "")))
                if api.status != 200:
                    self.send_error(api.status)
                elif "watch" in query:
                    self._watch(query["fieldSelector"][0].removeprefix("spec.nodeName="))
                else:
                    self._list(query["fieldSelector"][0].removeprefix("spec.nodeName="))

            def _list(self, node: str) -> None:
                items = [pod for pod in api.pods if pod["spec"]["nodeName"] == node]
                body = json.dumps({"metadata": {"resourceVersion": "5"}, "items": items}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _watch(self, node: str) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while (event := api.streams[node].get()) is not None:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def watched(self) -> Sequence[dict[str, list[str]]]:
        return [query for _, query, _ in self.asked if "watch" in query]

    def close(self) -> None:
        for stream in self.streams.values():
            for _ in range(10):
                stream.put(None)
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def api() -> Iterator[Api]:
    server = Api()
    yield server
    server.close()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def watching(api: Api, account: Path, labels: Sequence[str] = ()) -> PodWatch:
    watch = PodWatch(ApiServer(api.url, account), "n1", labels, backoff=0.05)
    watch.start()
    return watch


def test_pods_of_this_node_alone_are_listed_and_watched(api: Api, account: Path) -> None:
    api.pods = [document("train", "u1")]
    watch = watching(api, account)
    until(lambda: watch.health(0).success)
    watch.stop()

    assert watch.pods["u1"] == Pod(
        "ml", "train", "u1", containers={CONTAINER: ("main", "repo/train:1")}, start_time=1795248000.0
    )
    assert {path for path, _, _ in api.asked} == {"/api/v1/pods"}
    assert all(query["fieldSelector"] == ["spec.nodeName=n1"] for _, query, _ in api.asked)
    assert api.watched()[0]["resourceVersion"] == ["5"]
    assert watch.health(1e10).success
    assert watch.health(1e10).age == 0


def test_events_add_change_and_remove(api: Api, account: Path) -> None:
    watch = watching(api, account, ["team"])
    api.events.put({"type": "ADDED", "object": document("train", "u1", {"team": "a"})})
    until(lambda: "u1" in watch.pods)
    added = watch.pods["u1"].labels
    api.events.put({"type": "MODIFIED", "object": document("train", "u1", {"team": "b", "other": "x"})})
    becomes((("team", "b"),), lambda: watch.pods["u1"].labels)
    api.events.put({"type": "DELETED", "object": document("train", "u1")})
    until(lambda: "u1" not in watch.pods)
    watch.stop()

    assert added == (("team", "a"),)


def test_watch_that_ends_goes_on_from_its_last_version(api: Api, account: Path) -> None:
    watch = watching(api, account)
    api.events.put({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}})
    api.events.put(None)
    until(lambda: len(api.watched()) > 1)
    watch.stop()

    assert api.watched()[1]["resourceVersion"] == ["99"]


def test_version_that_is_too_old_means_a_new_list(api: Api, account: Path) -> None:
    watch = watching(api, account)
    until(api.watched)
    api.pods = [document("late", "u2")]
    api.events.put({"type": "ERROR", "object": {"code": 410, "message": "too old"}})
    until(lambda: "u2" in watch.pods)
    watch.stop()


def test_nodes_of_a_large_cluster_get_their_own_pods_by_two_requests_each(api: Api, account: Path) -> None:
    """10,000 pods on 1,000 nodes, of which ten are watched here; each pod changes once."""
    nodes, watched = [f"node-{number}" for number in range(1000)], [f"node-{number}" for number in range(0, 1000, 100)]
    api.pods = [
        {**document(f"pod-{node}-{number}", f"{node}-{number}"), "spec": {"nodeName": node}}
        for node in nodes
        for number in range(10)
    ]
    watches = {node: PodWatch(ApiServer(api.url, account), node, ["team"], backoff=0.05) for node in watched}
    for watch in watches.values():
        watch.start()
    until(lambda: len(api.watched()) == len(watched))
    for pod in api.pods:
        changed = {**pod, "metadata": {**pod["metadata"], "labels": {"team": "b"}}}
        api.streams[pod["spec"]["nodeName"]].put({"type": "MODIFIED", "object": changed})
    until(lambda: all(pod.labels for watch in watches.values() for pod in watch.pods.values()))
    for watch in watches.values():
        watch.stop()

    own = {node: {f"{node}-{number}" for number in range(10)} for node in watched}
    assert {node: set(watch.pods) for node, watch in watches.items()} == own
    assert len(api.asked) == 2 * len(watched)


def test_ten_thousand_pods_of_one_node_are_kept_up_to_date(api: Api, account: Path) -> None:
    api.pods = [document(f"pod-{number}", f"u{number}") for number in range(10_000)]
    watch = watching(api, account, ["team"])
    until(api.watched)
    for number in range(0, 10_000, 100):
        api.events.put({"type": "DELETED", "object": document(f"pod-{number}", f"u{number}")})
    api.events.put({"type": "ADDED", "object": document("last", "last", {"team": "a"})})
    until(lambda: "last" in watch.pods)
    watch.stop()

    assert len(watch.pods) == 9_901
    assert len(api.asked) == 2


def test_token_is_read_for_each_request(api: Api, account: Path) -> None:
    watch = watching(api, account)
    until(api.watched)
    (account / "token").write_text("second\n")
    api.events.put(None)
    until(lambda: len(api.watched()) > 1)
    watch.stop()

    assert api.asked[0][2] == "Bearer first"
    assert api.asked[-1][2] == "Bearer second"


def test_server_that_refuses_is_asked_again_and_what_is_known_stays(api: Api, account: Path) -> None:
    api.pods = [document("train", "u1")]
    watch = watching(api, account)
    until(lambda: watch.health(0).success)
    api.status = 403
    api.events.put(None)
    until(lambda: not watch.health(0).success)
    refused, known = watch.error, dict(watch.pods)
    api.status = 200
    until(lambda: watch.health(0).success)
    watch.stop()

    assert "HTTP 403" in refused
    assert set(known) == {"u1"}


def test_missing_token_is_a_failure_that_names_it(api: Api, tmp_path: Path) -> None:
    watch = watching(api, tmp_path)
    until(lambda: watch.error)
    watch.stop()

    assert "token" in watch.error
    assert not watch.health(0).success


HASH = "8f6a44fc62e8cb075753c843896568ca"


def static(**annotations: str) -> dict[str, str]:
    return {f"kubernetes.io/config.{name}": value for name, value in annotations.items()}


def test_static_pod_goes_by_the_hash_in_its_cgroup() -> None:
    uid, pod = pod_of(document("proxy", "mirror", **static(hash=HASH, mirror=HASH)), ())

    assert (uid, pod.uid) == (HASH, "mirror")


VICTIM = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"


@pytest.mark.parametrize("forged", [static(hash=VICTIM, mirror=VICTIM), static(hash=VICTIM), static(hash=HASH)])
def test_annotations_that_anybody_may_write_take_no_other_pods_place(forged: dict[str, str]) -> None:
    assert pod_of(document("evil", "own", **forged), ())[0] == "own"


def test_pod_whose_annotations_change_is_there_once(account: Path) -> None:
    watch = PodWatch(ApiServer("http://127.0.0.1:1", account), "n1")
    for number in range(3):
        mirror = f"{number:032x}"
        pod = document("evil", "own", **static(hash=mirror, mirror=mirror))
        watch._take({"type": "MODIFIED", "object": pod})
    changed = set(watch.pods)
    watch._take({"type": "DELETED", "object": document("evil", "own")})

    assert changed == {f"{2:032x}"}
    assert not watch.pods


def test_container_that_somebody_debugs_with_has_its_name() -> None:
    raw = document("train", "u1")
    raw["status"]["ephemeralContainerStatuses"] = [{"name": "debugger", "containerID": "containerd://d", "image": "i"}]

    assert pod_of(raw, ())[1].containers["d"] == ("debugger", "i")


@pytest.mark.parametrize("raw", [{}, {"metadata": {}}, {"metadata": {"labels": None}, "status": {}}])
def test_pod_with_next_to_nothing_is_survived(raw: dict[str, Any]) -> None:
    assert pod_of(raw, ("team",))[1].labels == ()


def test_in_cluster_address_is_the_environments() -> None:
    found = ApiServer.in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})

    assert found.url == "https://[fd00::1]:6443"
