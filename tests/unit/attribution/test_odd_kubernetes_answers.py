"""Answers of an API server and a kubelet as nobody expects them: a failure that shows, and never the end of asking."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution import documents
from exporter.attribution.background_source import SourceError
from exporter.attribution.kubernetes import grpc_unary
from exporter.attribution.kubernetes.api_server import ApiServer, PodWatch
from exporter.attribution.kubernetes.pod import pod_of
from exporter.core.threads import Threads
from tests.attribution_kit.nodes import until

GOOD = b'{"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {"uid": "u", "name": "p", "namespace": "n"}}]}'
ODD = [
    b"", b"null", b"[]", b"7", b'"x"', b"{}", b"\xff\xfe", b"[" * 100_000, b'{"items": 7}', b'{"items": {"a": 1}}',
    b'{"items": [null, 7, "x", []]}', b'{"items": [{"metadata": []}]}', b'{"items": [{"metadata": {"labels": "x"}}]}',
    b'{"items": [{"metadata": {"uid": "u"}, "status": {"containerStatuses": {"a": 1}}}]}',
    b'{"items": [{"metadata": {"uid": "u", "name": "\\ud800"}, "status": {"startTime": 7}}]}',
    b'{"items": null, "metadata": null}',
]  # fmt: skip


class Server(ApiServer):
    """Answers a list with each body in turn, and ends every watch."""

    bodies: list[bytes]

    def lines(self, path: str, parameters: Mapping[str, str], *, stream: bool) -> Iterator[bytes]:
        del path, parameters
        if stream:
            raise SourceError("no watch")
        yield self.bodies.pop(0) if self.bodies else GOOD


@pytest.mark.parametrize("body", ODD)
def test_odd_list_is_survived(body: bytes) -> None:
    server = Server("")
    object.__setattr__(server, "bodies", [body])
    threads, watch = Threads(), PodWatch(server, "n1", ("x",), backoff=0.001)
    watch.start(threads)

    until(lambda: "u" in watch.pods and watch.pods["u"].name == "p")
    assert threads.states()["kubernetes-api"].failures == 0
    watch.stop()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metadata", "status", "uid", "labels", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["metadata", "status", "object", "type"]), JSON))
def test_any_pod_is_survived(document: dict[str, Any]) -> None:
    _, pod = pod_of(document, ("x",))

    pod.name.encode()


def test_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_BYTES", 1000)
    with pytest.raises(SourceError, match="more than 1000 bytes"):
        list(documents.lines(b"x" * 100 for _ in range(1000)))
    with pytest.raises(SourceError, match="more than 1000 bytes"):
        documents.whole(b"x" * 100 for _ in range(1000))

    assert list(documents.lines([b"a\nb", b"c\n", b"d"])) == [b"a", b"bc", b"d"]


@pytest.mark.parametrize("header", [(b"grpc-message", b"\xff\xfe"), (b"x-\xc3\xa4", b"y")])
def test_kubelets_header_that_is_not_utf8_is_a_failure_or_nothing(tmp_path: Path, header: tuple[bytes, bytes]) -> None:
    path = tmp_path / "kubelet.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        thread = threading.Thread(target=_serve, args=(listening, header))
        thread.start()
        with pytest.raises(SourceError):
            grpc_unary.call(path, "/x", timeout=5)
        thread.join()


def _serve(listening: socket.socket, header: tuple[bytes, bytes]) -> None:
    """A server that refuses with the given header."""
    with contextlib.suppress(ConnectionError), listening.accept()[0] as connection:  # the client leaves when it likes
        server: Any = H2Connection(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        server.initiate_connection()
        connection.sendall(server.data_to_send())
        while chunk := connection.recv(65536):
            streams = [event.stream_id for event in server.receive_data(chunk) if type(event).__name__ == "StreamEnded"]
            for stream in streams:
                server.send_headers(stream, [(b":status", b"200"), (b"grpc-status", b"5"), header], end_stream=True)
            connection.sendall(server.data_to_send())
