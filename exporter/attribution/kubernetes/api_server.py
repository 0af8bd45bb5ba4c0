"""API server of Kubernetes: a list and then a watch of this node's pods, its Node object, and its ResourceSlices.

The role needs `list` and `watch` on `pods`, `get` on `nodes` and `resourceclaims`, and `list` on `resourceslices`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from typing import Any, NamedTuple
from urllib.parse import quote

from exporter.attribution.background_source import BAD_ANSWER, REFUSED, TIMEOUT, FailureLog, SourceError, reason_of
from exporter.attribution.devices import DeviceName, device_of
from exporter.attribution.documents import Document, decoded, lines, part, parts, text, whole
from exporter.attribution.kubernetes.pod import Pod, pod_of
from exporter.attribution.owner import SourceHealth
from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.site_file import read_bytes
from exporter.core.threads import Threads
from exporter.host.text import exists, natural

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
WATCH_SECONDS = 300
"""Time after which the server ends a watch. One that stays silent much longer is dead."""
_READ_SECONDS = WATCH_SECONDS + 30.0
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 10.0
"""Time for the first byte of an answer, and for all of an answer that is no watch."""
_SETTLE_SECONDS = 1.0
"""Time after which an open watch counts as good: some servers open it and then send an error."""
_LONGEST_PAUSE_SECONDS = 10.0
"""Longest pause from the start of an attempt that failed. A random part is left out: the nodes of a cluster do not come
back together."""
_GONE = 410
_OK = (200, 201)
_UNAUTHORIZED, _FORBIDDEN = 401, 403
_JSON = "application/json"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"


class StatusError(SourceError):
    """The API server answered with another status than 200 or 201."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"{url}: HTTP {status}", REFUSED if status in (_UNAUTHORIZED, _FORBIDDEN) else BAD_ANSWER)
        self.status = status


class Write(NamedTuple):
    """A request that changes an object; `form` is the media type of the document."""

    method: str
    document: Document
    form: str = _JSON


@dataclass(frozen=True, slots=True)
class ApiServer:
    """Address and credentials of the API server. Token and CA are read again for each request: they rotate."""

    url: str
    account: Path = SERVICE_ACCOUNT

    @classmethod
    def in_cluster(cls, environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> ApiServer:
        host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}", account)

    def lines(
        self, path: str, parameters: Mapping[str, str], *, stream: bool, accept: str = _JSON, write: Write | None = None
    ) -> Iterator[bytes]:
        """Yield the answer's lines as they come, of a stream an empty one first, as soon as it is open.

        Raises SourceError; StatusError if the server refuses.
        """
        import requests  # noqa: PLC0415 - 12.5 MiB that only this option costs

        authority, began = self.account / "ca.crt", monotonic_time()
        try:
            token = read_bytes(self.account / "token").decode().strip()
            with requests.request(
                write.method if write else "GET",
                self.url + path,
                params=dict(parameters),
                data=json.dumps(write.document) if write else None,
                headers={
                    "Authorization": f"Bearer {token}",
                    "Accept": accept,
                    **({"Content-Type": write.form} if write else {}),
                },
                verify=str(authority) if exists(authority) else True,
                timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
                stream=True,
                allow_redirects=False,
            ) as response:
                if response.status_code not in _OK:
                    raise StatusError(self.url, response.status_code)
                with _time_limit(response, stream=stream):
                    if stream:
                        yield b""
                    yield from lines(response.iter_content(chunk_size=None if stream else 65536))
        except requests.Timeout as error:
            raise SourceError(f"{self.url}: {error}", TIMEOUT) from error
        except (requests.RequestException, OSError) as error:
            late = not stream and monotonic_time() - began >= _ANSWER_SECONDS
            raise SourceError(f"{self.url}: {error}", TIMEOUT if late else reason_of(error)) from error

    def document(self, path: str, write: Write | None = None) -> Document:
        """Return the object at the path, or what it is after the change. Raises SourceError."""
        answer = self.lines(path, {}, stream=False, write=write) if write else self.lines(path, {}, stream=False)
        return decoded(whole(answer))


@contextmanager
def _time_limit(response: Any, *, stream: bool) -> Generator[None, None, None]:
    """Let a watch be silent for _READ_SECONDS. End other answers after _ANSWER_SECONDS, however slowly they come."""
    connection: socket.socket | None = getattr(response.raw.connection, "sock", None)
    if stream or connection is None:
        if connection:
            connection.settimeout(_READ_SECONDS)
        yield
        return
    deadline = threading.Timer(_ANSWER_SECONDS, connection.shutdown, (socket.SHUT_RDWR,))
    deadline.daemon = True
    deadline.start()
    try:
        yield
    finally:
        deadline.cancel()


SOURCE = "kubernetes_api"


class PodWatch:
    """Pods of the node, kept up to date in a thread of its own."""

    def __init__(
        self,
        server: ApiServer,
        node: str,
        labels: Collection[str] = (),
        *,
        backoff: float = 1.0,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._server = server
        self._selector = {"fieldSelector": f"spec.nodeName={node}"}
        self._labels = tuple(labels)
        self._backoff = backoff
        self._clock = clock
        self._stopped = threading.Event()
        self._good_at = clock()
        self._success = False
        self._failures = FailureLog(SOURCE)
        self._reason = ""
        self.error = ""
        self._objects: dict[str, tuple[str, Pod]] = {}
        """The uid in its cgroups, and the pod, by the API object's uid."""
        self.pods: Mapping[str, Pod] = {}
        """Pods by the uid in their cgroups. Replaced, never changed in place."""

    def start(self, threads: Threads | None = None) -> None:
        (threads or Threads()).start("kubernetes-api", self._run)

    def stop(self) -> None:
        """Ask the thread to end. A silent watch does not keep the program alive."""
        self._stopped.set()

    def health(self, now: MonotonicTime) -> SourceHealth:
        """Return the health. The age of an open watch is 0; it counts from the loss of the watch."""
        age = 0.0 if self._success else max(0.0, now - self._good_at)
        return SourceHealth(SOURCE, self._success, age, reason=self._reason)

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            began = self._clock()
            try:
                self._follow(self._list())
                failures = 0
            except Exception as error:  # noqa: BLE001 - the server's bytes: nothing in them may end the watch
                if self._stopped.is_set():
                    return
                self._reason = self._failures.failed(error)
                if self._success:
                    failures, self._good_at, began = 0, self._clock(), self._clock()
                self._success, self.error = False, str(error) or type(error).__name__
                failures += 1
            if failures:
                pause = min(_LONGEST_PAUSE_SECONDS, self._backoff * 2 ** min(failures - 1, 10))
                pause *= SystemRandom().uniform(0.5, 1.0)
                self._stopped.wait(max(self._backoff / 2, pause - (self._clock() - began)))

    def _list(self) -> str:
        """Read all pods. Returns the version to watch from."""
        parameters = {**self._selector, "resourceVersion": "0"}
        document = decoded(whole(self._server.lines("/api/v1/pods", parameters, stream=False)))
        if "items" not in document:
            raise SourceError("not a list of pods")
        found = (pod_of(item, self._labels) for item in parts(document, "items"))
        self._objects = {pod.uid: (uid, pod) for uid, pod in found if uid}
        self.pods = dict(self._objects.values())
        return text(part(document, "metadata"), "resourceVersion")

    def _follow(self, version: str | None) -> None:
        """Watch, again and again from the last version, until the server wants a new list or fails."""
        while version is not None:
            version = self._watch_once(version)
            if self._stopped.is_set():
                return
            self._note_success()
            self._stopped.wait(self._backoff)  # a server that ends every watch at once is not to be pressed

    def _watch_once(self, version: str) -> str | None:
        """Watch from a version until the server ends the watch. Returns the last version; None if it is too old."""
        parameters = {
            **self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_SECONDS),
            "resourceVersion": version,
        }
        lasts = threading.Timer(_SETTLE_SECONDS, self._note_success)
        lasts.daemon = True
        try:
            for line in self._server.lines("/api/v1/pods", parameters, stream=True):
                if self._stopped.is_set():
                    return None
                if lasts.ident is None:
                    lasts.start()
                event: Document = decoded(line) if line.strip() else {}
                if event.get("type") == "ERROR":
                    if part(event, "object").get("code") == _GONE:
                        return None
                    raise SourceError(f"watch: {text(part(event, 'object'), 'message') or 'error'}")
                version = self._take(event) or version
        finally:
            lasts.cancel()
        return version

    def _take(self, event: Document) -> str:
        document = part(event, "object")
        uid, pod = pod_of(document, self._labels)
        if event.get("type") in ("ADDED", "MODIFIED") and uid:
            self._objects[pod.uid] = uid, pod
        elif event.get("type") == "DELETED":
            self._objects.pop(pod.uid, None)
        self.pods = dict(self._objects.values())
        return text(part(document, "metadata"), "resourceVersion")

    def _note_success(self) -> None:
        self._failures.answered()
        self._success, self._good_at, self.error, self._reason = True, self._clock(), "", ""


_RESOURCE = "nvidia.com/gpu"
_PRODUCT, _REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
"""Labels of GPU Feature Discovery: without them nobody knows whether the capacity counts GPUs or parts of them."""
_COUNT = "nvidia.com/gpu.count"
"""The label with the GPUs that the driver shows."""
_OUT = re.compile(r"maintenance|^node\.kubernetes\.io/out-of-service$")
"""Keys of taints; the same as the alert's."""
_MAX_GPUS = 128
"""GPUs that are believed of one node."""


@dataclass(frozen=True, slots=True)
class NodeObject:
    """`gpus` None: its capacity is not reported, or counts other things."""

    gpus: int | None = None
    maintenance: bool = False
    pool: str | None = None
    """Its label `pool`, empty without; None before the first answer."""


def read_node(server: ApiServer, name: str) -> NodeObject:
    """Read this node's object. Raises SourceError."""
    return node_of(server.document(node_path(name)))


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def node_of(document: Document) -> NodeObject:
    spec = part(document, "spec")
    tainted = any(_OUT.search(text(taint, "key")) for taint in parts(spec, "taints"))
    pool = text(part(part(document, "metadata"), "labels"), "pool")
    return NodeObject(_node_gpus(document), spec.get("unschedulable") is True or tainted, pool)


def _node_gpus(document: Document) -> int | None:
    """Return the whole GPUs; None where they are not known.

    Time slicing and MPS count each more than once, MIG's single strategy counts instances. A multiple of the GPUs that
    the driver shows is time slicing that the label of the replicas does not know of.
    """
    labels = part(part(document, "metadata"), "labels")
    capacity = natural(text(part(part(document, "status"), "capacity"), _RESOURCE))
    replicas = natural(text(labels, _REPLICAS))
    if not capacity or not replicas or capacity % replicas or "-MIG-" in text(labels, _PRODUCT):
        return None
    gpus = capacity // replicas
    shown = natural(text(labels, _COUNT)) or gpus
    sliced = gpus > shown and gpus % shown == 0
    return gpus if gpus <= _MAX_GPUS and not sliced else None


PATHS = ("/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices")
DRIVER = "gpu.nvidia.com"


def resource_slices(server: ApiServer, node: str) -> Mapping[str, str]:
    """Return UUIDs by the device names of NVIDIA's DRA driver. Raises SourceError.

    The kubelet only reports these names (`gpu-0-mig-19-4-1`: minor, profile, place).
    """
    # Selected by driver and node here as well: an API server that knows no such field would answer all.
    selector = {"fieldSelector": f"spec.nodeName={node},spec.driver={DRIVER}"}
    return parse_slices(_first_answer(server, PATHS, selector), node)


def _first_answer(server: ApiServer, paths: Iterable[str], parameters: Mapping[str, str]) -> bytes:
    """Return the answer of the first version of resource.k8s.io that the API server has. Raises SourceError."""
    failure = SourceError("no version of resource.k8s.io was asked for")
    for path in paths:
        try:
            return whole(server.lines(path, parameters, stream=False))
        except SourceError as error:
            failure = error
    raise failure


def admin_devices(server: ApiServer, claim: str) -> frozenset[DeviceName]:
    """Return the devices that a claim only watches (`adminAccess`): they stay free for others. Raises SourceError."""
    place = "/namespaces/{}/resourceclaims/{}".format(*(quote(part, safe="") for part in claim.split("/", 1)))
    paths = [path.replace("/resourceslices", place) for path in PATHS]
    allocation = part(part(decoded(_first_answer(server, paths, {})), "status"), "allocation")
    results = [each for each in parts(part(allocation, "devices"), "results") if each.get("adminAccess") is True]
    return frozenset(name for each in results if (name := device_of(text(each, "device"))))


def parse_slices(answer: bytes, node: str) -> Mapping[str, str]:
    """Parse a list of ResourceSlices. Raises SourceError."""
    document = decoded(answer)
    if "items" not in document:
        raise SourceError("not a list of ResourceSlices")
    specs = [part(item, "spec") for item in parts(document, "items")]
    mine = [spec for spec in specs if text(spec, "driver") == DRIVER and text(spec, "nodeName") == node]
    uuids = {text(device, "name"): _device_uuid(device) for spec in mine for device in parts(spec, "devices")}
    return {name: uuid for name, uuid in uuids.items() if name and uuid}


def _device_uuid(device: Document) -> str:
    attributes = part(device, "attributes") or part(part(device, "basic"), "attributes")
    return text(part(attributes, "uuid"), "string")
