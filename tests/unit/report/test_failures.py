"""Every way in which there is no report: one line, and a status of its own."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from exporter.tools.report.client import Access, Client, SlowError, UnauthorizedError, UnreachableError
from tests.command import Done, run

Answer = Callable[[BaseHTTPRequestHandler], None]
TOKEN, PASSWORD = "t0ken", "open sesame"
EMPTY = json.dumps({"status": "success", "data": {"resultType": "vector", "result": []}})
EMPTY_MATRIX = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}})


@contextmanager
def api(answer: Answer, certificate: Path | None = None) -> Iterator[str]:
    """A server that answers every request so."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer(self)

        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def saying(status: int, body: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        say(handler, status, body)

    return answer


def say(handler: BaseHTTPRequestHandler, status: int, body: str) -> None:
    handler.send_response(status)
    handler.end_headers()
    handler.wfile.write(body.encode())


def silent(handler: BaseHTTPRequestHandler) -> None:
    handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    time.sleep(3)


def empty(handler: BaseHTTPRequestHandler) -> None:
    saying(200, EMPTY_MATRIX if "query_range" in handler.path else EMPTY)(handler)


def leading_to(target: str, status: int) -> Answer:
    """To where what is asked for is, as proxies lead from http to https."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        handler.send_response(status)
        handler.send_header("Location", f"{target}{handler.path}")
        handler.end_headers()

    return answer


def wants_a_query(handler: BaseHTTPRequestHandler) -> None:
    """As a Prometheus, which takes it from the content or from the address."""
    content = handler.rfile.read(int(handler.headers.get("Content-Length", 0))).decode()
    if "query=" in handler.path or "query=" in content:
        say(handler, 200, EMPTY_MATRIX if "query_range" in handler.path else EMPTY)
    else:
        say(handler, 400, error("bad_data", "no expression found in input"))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_query_survives_a_redirection(status: int) -> None:
    with api(wants_a_query) as url, api(leading_to(url, status)) as proxy:
        done = report(proxy)

    assert (done.returncode, done.stdout) == (8, "")
    assert "this Prometheus has no metrics of gpu-exporter" in done.stderr


def guarded(authorization: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.headers.get("Authorization") == authorization:
            empty(handler)
        else:
            saying(401, "who are you?")(handler)

    return answer


def error(kind: str, text: str) -> str:
    return json.dumps({"status": "error", "errorType": kind, "error": text})


def report(url: str, *arguments: str) -> Done:
    return run("report", "4711", "--prometheus.url", url, *arguments)


@pytest.mark.parametrize(
    ("answer", "status", "says"),
    [
        (saying(401, ""), 5, "asks for credentials (HTTP 401)"),
        (saying(403, ""), 5, "asks for credentials (HTTP 403)"),
        (saying(404, "<html>not found</html>"), 4, "is not the API of a Prometheus (HTTP 404)"),
        (saying(200, "<html>Grafana</html>"), 4, "is not the API of a Prometheus (HTTP 200)"),
        (saying(200, json.dumps({"status": "success"})), 4, "no vector in its answer"),
        (saying(503, error("timeout", "query timed out in expression evaluation")), 6, "the query timed out"),
        (saying(504, "gateway time-out"), 6, "the query timed out (HTTP 504)"),
        (silent, 6, "does not answer within 0.5 s"),
        (saying(422, error("execution", "too many samples")), 7, "answers HTTP 422: too many samples"),
        (empty, 8, "this Prometheus has no metrics of gpu-exporter"),
    ],
    ids=["401", "403", "404", "html", "no-data", "slow-query", "gateway", "silent", "refused", "empty"],
)
def test_answer_that_is_no_report_is_one_line_with_a_status(answer: Answer, status: int, says: str) -> None:
    with api(answer) as url:
        done = report(url, "--prometheus.timeout", "500ms" if answer is silent else "20s")

    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("http://127.0.0.1:1", 4, "http://127.0.0.1:1: no connection: Failed to establish a new connection"),
        ("http://name.invalid", 4, "no connection: Failed to resolve 'name.invalid'"),
        ("prometheus:9090", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'prometheus:9090'"),
        ("", 2, "--prometheus.url: expected http://HOST or https://HOST, got ''"),
        ("http://h:99999", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://h:99999'"),
        ("http://h:port/", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://h:port/'"),
        ("http://[::1", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://[::1'"),
        ("http://:9090", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://:9090'"),
        ("http://h/a b", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://h/a b'"),
        ("http://h\n/", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://h\\n/'"),
        (f"http://{'h' * 64}", 2, "--prometheus.url: expected http://HOST or https://HOST, got 'http://hhh"),
        ("http://ada:sesame@127.0.0.1:1", 4, "report: http://127.0.0.1:1: no connection"),
        ("http://ada:sesame@h:port", 2, "got 'http://h:port'"),
    ],
)
def test_url_where_nothing_is(url: str, status: int, says: str) -> None:
    done = report(url)

    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert says in done.stderr
    assert "sesame" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "expected one of NAME, --pod, --workload, --user, --account, --namespace, --all; got nothing"),
        (
            ["12x"],
            "4711_3, 4711+1 or 4711.batch, got '12x'",
        ),
        (["1", "2"], "unrecognized arguments: 2"),
        (["1", "--all"], "got --all and NAME"),
        (["--pod", "train-0"], "--pod: expected NAMESPACE/NAME, got 'train-0'"),
        (["1", "--since", "a week"], "--since: expected a duration"),
        (["1", "--prices.file", "/nonexistent"], "--prices.file /nonexistent: No such file"),
        (["--month", "October"], "--month: expected a month such as 2026-10"),
        (["--month", "2026-10"], "--month: expected --accounting.database"),
        (["1", "--format", "csv"], "expected with --month"),
        (
            ["1", "--prometheus.bearer-token-file", "/nonexistent"],
            "--prometheus.bearer-token-file /nonexistent: No such",
        ),
    ],
)
def test_wrong_input_is_one_line_and_status_2(arguments: list[str], says: str) -> None:
    done = run("report", *arguments)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert says in done.stderr


def test_token_and_password_are_sent() -> None:
    basic = "Basic " + base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    with api(guarded(f"Bearer {TOKEN}")) as url:
        assert Client(Access(url, token=TOKEN)).instant("up", 0) == []
        with pytest.raises(UnauthorizedError, match="refuses these credentials"):
            Client(Access(url, token=TOKEN[1:])).instant("up", 0)
    with api(guarded(basic)) as url:
        assert Client(Access(url, user="ada", password=PASSWORD)).instant("up", 0) == []


@pytest.mark.parametrize("option", ["prometheus.bearer-token-file", "prometheus.password-file"])
@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "expected one line of text"),
        (b"\n", "expected one line of text"),
        (b"a\nb", "expected one line of text"),
        (b"a\x00", "expected one line of text"),
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b"x" * 70_000, "larger than 64 KiB"),
    ],
    ids=["empty", "blank", "two-lines", "nul", "not-text", "large"],
)
def test_file_that_holds_no_secret_is_one_line(option: str, content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    done = run("report", "1", f"--{option}", str(file), "--prometheus.username", "ada")

    assert (done.returncode, done.stderr) == (2, f"gpu-exporter: --{option} {file}: {says}\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--prometheus.headers", "A=b\r\nC: d"], "--prometheus.headers: expected NAME=VALUE"),
        (["--prometheus.headers", "A=\u2603"], "--prometheus.headers: expected NAME=VALUE"),
        (["--prometheus.headers", "\u00fc=1"], "--prometheus.headers: expected NAME=VALUE"),
        (["--prometheus.username", "a:b"], "--prometheus.username: expected no colon"),
        (["--prometheus.password-file", "FILE"], "--prometheus.password-file: expected with --prometheus.username"),
    ],
)
def test_credentials_that_cannot_be_sent_are_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text(PASSWORD)
    done = run("report", "1", *(str(tmp_path / each) if each == "FILE" else each for each in arguments))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert says in done.stderr


def test_token_that_is_no_ascii_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t\u00f6k")
    done = run("report", "1", "--prometheus.bearer-token-file", str(tmp_path / "token"))

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "expected a token of ASCII" in done.stderr


def test_names_and_passwords_are_sent_as_utf_8() -> None:
    """As servers in Go compare them, and as this exporter's own realm asks."""
    snow = "\u2603"
    basic = "Basic " + base64.b64encode(f"ad\u00e4:{snow}".encode()).decode()
    with api(guarded(basic)) as url:
        assert Client(Access(url, user="ad\u00e4", password=snow)).instant("up", 0) == []


def test_own_certificate_authority(tmp_path: Path) -> None:
    certificate = tmp_path / "both.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-keyout", tmp_path / "key", "-out", tmp_path / "cert", "-subj", "/CN=127.0.0.1",
         "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    certificate.write_text((tmp_path / "key").read_text() + (tmp_path / "cert").read_text())
    with api(empty, certificate) as url:
        assert Client(Access(url, ca=str(tmp_path / "cert"))).instant("up", 0) == []
        with pytest.raises(UnreachableError, match="TLS"):
            Client(Access(url)).instant("up", 0)
        assert (
            f"{url} does not answer: TLS: [SSL: CERTIFICATE_VERIFY_FAILED]" in run("check", "--check.url", url).stdout
        )


def test_proxy_that_lets_only_reads_through_is_asked_by_get() -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        (saying(405, "") if handler.command == "POST" else empty)(handler)

    with api(answer) as url:
        assert Client(Access(url)).instant("up", 0) == []


def test_slow_answer_raises_within_the_timeout() -> None:
    with api(silent) as url, pytest.raises(SlowError):
        Client(Access(url, timeout=0.2)).instant("up", 0)
