"""What an open network does to a port that speaks TLS: stalls, and ends that never come."""

from __future__ import annotations

import contextlib
import gc
import ssl

import pytest

from exporter.web import connection
from exporter.web.tls import Certificates, Tls
from tests.attribution_kit.nodes import until
from tests.unit.web.hostile import BODY, client, said, scrape, serving


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    from tests.unit.web.test_web import certificate  # noqa: PLC0415 - only where TLS is tested

    folder = tmp_path_factory.mktemp("keys")
    certificate(folder, "x")
    return Certificates(Tls(folder / "cert.pem", folder / "key.pem"))


def test_stalled_handshakes_keep_nobody_waiting(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib3.connectionpool.warnings.warn", lambda *_: None)
    with serving(certificates=certificates) as port, contextlib.ExitStack() as stack:
        for number in range(100):
            stalled = stack.enter_context(client(port))
            if number % 2:
                stalled.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with client(port) as raw, context.wrap_socket(raw) as wrapped:
            wrapped.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert said(wrapped).endswith(BODY)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_connection_that_has_ended_is_forgotten_at_once(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over TLS each holds 200 KiB, and the search for circles begins after hundreds of them."""

    class Own(connection.Connection):
        """Servers of the tests before may still be ending theirs."""

    monkeypatch.setattr("exporter.web.server.Connection", Own)
    gc.disable()
    try:
        with serving(certificates=certificates) as port:
            for _ in range(3):
                assert scrape(port, "https") == 200
            until(lambda: not any(isinstance(each, Own) for each in gc.get_objects()))
    finally:
        gc.enable()


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_client_that_does_not_end_tls_gives_way(certificates: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.web.server.room", lambda **_: 4)
    monkeypatch.setattr(connection, "CLOSING_SECONDS", 3600.0)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with serving(certificates=certificates) as port, contextlib.ExitStack() as stack:
        for _ in range(4):
            stream = stack.enter_context(context.wrap_socket(client(port), suppress_ragged_eofs=True))
            stream.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert stream.recv(15) == b"HTTP/1.1 200 OK"

        assert scrape(port, "https") == 200


def test_hands_are_shaken_once_for_a_connection(certificates: Certificates) -> None:
    assert certificates.context().options & ssl.OP_NO_RENEGOTIATION
