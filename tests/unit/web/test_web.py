"""Web: routes, negotiation of compression, authentication, configuration file, TLS."""

from __future__ import annotations

import base64
import contextlib
import gzip
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.option import ConfigError
from exporter.web.app import App, Policy, RouteHandlers
from exporter.web.auth import BasicAuth, Verdict
from exporter.web.server import Server
from exporter.web.settings import WebFile, WebSettings, load
from exporter.web.tls import Certificates

BODY = b"gpu_up 1\n" * 500
STATUS = "<p>ok" * 500


def metrics(accept: str) -> tuple[str, bytes]:
    return f"text/plain; got={accept}", BODY


def app(users: dict[str, str] | None = None, ready: str = "") -> App:
    pages = RouteHandlers(metrics=metrics, status=lambda: STATUS, ready=lambda: ready)
    policy = Policy(BasicAuth(users or {}), (("X-Test", "1"),))
    return App(pages, "/metrics", lambda: policy)


def ask(application: App, path: str, **headers: str) -> tuple[str, dict[str, str], bytes]:
    found = application.respond({"REQUEST_METHOD": headers.pop("method", "GET"), "PATH_INFO": path, **headers})
    return found.status, dict(found.headers), found.body


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_routes() -> None:
    assert ask(app(), "/metrics", HTTP_ACCEPT="x")[1]["Content-Type"] == "text/plain; got=x"
    assert ask(app(), "/-/healthy")[0] == "200 OK"
    assert ask(app(), "/-/ready")[0] == "200 OK"
    assert ask(app(), "/")[1]["Content-Type"].startswith("text/html")
    assert ask(app(), "/nothing")[0] == "404 Not Found"
    assert ask(app(), "/metrics", method="POST")[0] == "405 Method Not Allowed"


def test_not_ready_says_why() -> None:
    status, _, body = ask(app(ready="no GPU"), "/-/ready")

    assert (status, body) == ("503 Service Unavailable", b"not ready: no GPU\n")


def test_head_has_the_length_and_no_body() -> None:
    _, headers, body = ask(app(), "/metrics", method="HEAD")

    assert (headers["Content-Length"], body) == (str(len(BODY)), b"")


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("identity;q=0.5, gzip", True),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_negotiated(accepted: str, packed: bool) -> None:  # noqa: FBT001 - a parameter of the table above
    for path, whole in (("/metrics", BODY), ("/", STATUS.encode())):
        _, headers, body = ask(app(), path, HTTP_ACCEPT_ENCODING=accepted)

        assert ("Content-Encoding" in headers) is packed
        assert (gzip.decompress(body) if packed else body) == whole


def test_password_is_checked() -> None:
    users = {"prom": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
    guarded = app(users)

    assert ask(guarded, "/metrics")[0] == "401 Unauthorized"
    assert ask(guarded, "/-/healthy", HTTP_AUTHORIZATION=basic("prom", "wrong"))[0] == "401 Unauthorized"
    assert ask(guarded, "/metrics", HTTP_AUTHORIZATION=basic("nobody", "secret"))[0] == "401 Unauthorized"
    for _ in range(2):  # the second from the cache
        assert ask(guarded, "/metrics", HTTP_AUTHORIZATION=basic("prom", "secret"))[0] == "200 OK"


@given(st.text(max_size=60))
def test_no_authorization_header_is_an_error(header: str) -> None:
    assert BasicAuth({"a": "$2b$04$" + "x" * 53}, lambda: 0.0).check(header) is not Verdict.ALLOWED


def test_empty_web_configuration_is_plain(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("")

    assert load(file) == WebFile()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("tls_server_config: {cert_file: a}", "tls_server_config needs key_file"),
        (
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}",
            "min_version: expected one of TLS12, TLS13",
        ),
        ("basic_auth_users: {prom: secret}", "basic_auth_users.prom: expected a bcrypt hash"),
        ("tls_config: {}", "unknown key tls_config"),
        ("[]", "expected a mapping"),
        ("a: [", "not YAML"),
    ],
)
def test_bad_web_configuration_is_one_line(tmp_path: Path, content: str, expected: str) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(content)

    with pytest.raises(ConfigError) as caught:
        load(file)

    assert expected in str(caught.value)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def certificate(directory: Path, name: str) -> None:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    subject = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    out = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    subprocess.run([*command, *subject, *out], check=True, capture_output=True)


@contextlib.contextmanager
def serving(web: WebFile, users: dict[str, str] | None = None) -> Iterator[int]:
    server = Server(app(users), ("127.0.0.1", 0), 2, Certificates(web.tls) if web.tls else None)
    server.start()
    try:
        yield server.port
    finally:
        server.stop()


def common_name(port: int) -> str:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), 5) as raw, context.wrap_socket(raw) as wrapped:
        der = wrapped.getpeercert(binary_form=True)
    assert der is not None
    text = subprocess.run(
        ["openssl", "x509", "-inform", "der", "-noout", "-subject"], input=der, capture_output=True, check=True
    )
    return text.stdout.decode().strip().rpartition("= ")[2].rpartition("=")[2].strip()


def test_tls_serves_and_takes_a_renewed_certificate_without_restart(tmp_path: Path) -> None:
    certificate(tmp_path, "first")
    file = tmp_path / "web.yaml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")

    with serving(load(file)) as port:
        answer = requests.get(f"https://127.0.0.1:{port}/metrics", verify=str(tmp_path / "cert.pem"), timeout=5)
        assert (answer.status_code, answer.content) == (200, BODY)
        assert common_name(port) == "first"
        certificate(tmp_path, "second")
        assert common_name(port) == "second"


def test_certificate_that_cannot_be_read_again_is_logged_and_the_one_that_works_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate(tmp_path, "first")
    file = tmp_path / "web.yaml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")
    tls = load(file).tls
    assert tls is not None
    certificates = Certificates(tls)
    before = certificates.context()
    (tmp_path / "cert.pem").write_text("half of it")

    assert [certificates.context() for _ in range(2)] == [before, before]
    (said,) = caplog.messages
    assert said.startswith(f"certificate not read again: --web.config.file: {tmp_path}/cert.pem")
    assert not certificates.success


def test_a_client_that_never_shakes_hands_does_not_keep_others_waiting(tmp_path: Path) -> None:
    certificate(tmp_path, "x")
    file = tmp_path / "web.yaml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")

    with serving(load(file)) as port, socket.create_connection(("127.0.0.1", port), 5):
        answer = requests.get(f"https://127.0.0.1:{port}/-/healthy", verify=str(tmp_path / "cert.pem"), timeout=3)
        assert answer.status_code == 200


@pytest.mark.parametrize("missing", ["cert.pem", "key.pem"])
def test_unreadable_tls_file_is_one_line(tmp_path: Path, missing: str) -> None:
    certificate(tmp_path, "x")
    (tmp_path / missing).unlink()
    file = tmp_path / "web.yaml"
    file.write_text("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n")

    with pytest.raises(ConfigError, match=f"{missing}: No such file or directory"):
        WebSettings(file)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ("cert_file: a.pem, key_file: b.pem", "{0}/a.pem, {0}/b.pem: "),
        ("cert: x, key: y", "tls_server_config: "),
    ],
)
def test_certificate_that_is_none_is_one_line_that_says_where_it_is_from(
    tmp_path: Path, files: str, named: str
) -> None:
    for name in ("a.pem", "b.pem"):
        (tmp_path / name).write_text("x")
    file = tmp_path / "web.yaml"
    file.write_text(f"tls_server_config: {{{files}}}\n")

    with pytest.raises(ConfigError) as caught:
        WebSettings(file)

    assert str(caught.value).startswith(f"--web.config.file: {named.format(tmp_path)}")
    assert "\n" not in str(caught.value)


def test_taken_port_is_one_line_that_names_the_option() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--web.listen-address 127.0.0.1:{port}: "):
            Server(app(), ("127.0.0.1", port), 1)


def test_address_that_cannot_be_had_is_shown_as_it_was_written() -> None:
    with pytest.raises(ConfigError, match=r"--web\.listen-address \[2001:db8::1\]:9836: [\w ]+$"):
        Server(app(), ("2001:db8::1", 9836), 1)
