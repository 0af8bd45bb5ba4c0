"""Servers that never come to an end: the report and the check keep their time and their memory all the same."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest
import requests

from exporter.core import fetch
from exporter.tools.check import exporter_page
from exporter.tools.report import client
from exporter.tools.report.client import Access, Client, RefusedError, SlowError, UnreachableError
from tests.command import run
from tests.unit.report.test_failures import api

Answer = Callable[[BaseHTTPRequestHandler], None]


def dripping(piece: bytes) -> Answer:
    """A piece now and then, for ever: no single read takes long."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(piece)
                time.sleep(0.02)

    return answer


def saying(head: bytes, body: bytes) -> Answer:
    """Reads what it is asked: closed with it unread, the connection is reset, and the answer may be lost on its way."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
            handler.wfile.write(b"HTTP/1.0 200 OK\r\n" + head + b"\r\n" + body)

    return answer


BODY = dripping(b"HTTP/1.0 200 OK\r\n\r\n \n")
HEAD = dripping(b"HTTP/1.0 200 OK\r\nA: b\r\n")


@pytest.mark.parametrize("answer", [BODY, HEAD], ids=["body", "head"])
def test_answer_that_drips_for_ever_takes_no_longer_than_the_timeout(answer: Answer) -> None:
    with api(answer) as url, pytest.raises(SlowError, match=r"does not answer within 0\.3 s"):
        Client(Access(url, timeout=0.3)).instant("up", 0)


def test_check_of_an_exporter_that_drips_ends_at_its_deadline() -> None:
    with api(BODY) as url:
        done = run("check", "--check.url", url, "--check.deadline", "300ms")

    assert (done.returncode, done.stdout) == (3, f"unknown: {url}: no verdict within 0.3 s\n")


def test_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "MAX_ANSWER_BYTES", 1 << 20)
    monkeypatch.setattr(exporter_page, "_MAX_PAGE_BYTES", 1 << 20)
    endless = saying(b"", b" " * (2 << 20))
    with api(endless) as url:
        with pytest.raises(RefusedError, match="answers with more than 1 MiB"):
            Client(Access(url)).instant("up", 0)
        done = run("check", "--check.url", url)

    assert (done.returncode, done.stdout) == (3, f"unknown: {url} answers with more than 1 MiB\n")


@pytest.mark.parametrize(
    ("head", "body", "says"),
    [
        (b"Content-Length: 100\r\n", b"{", "ends in the middle of its answer"),
        (b"Content-Encoding: gzip\r\n", b"{}", "does not compress its answer as it says"),
    ],
)
def test_answer_that_breaks_off_is_told_in_words(head: bytes, body: bytes, says: str) -> None:
    with api(saying(head, body)) as url, pytest.raises(UnreachableError, match=f"^{url}: {says}$"):
        Client(Access(url)).instant("up", 0)


def test_redirect_to_what_is_no_address_is_told_in_words() -> None:
    def send() -> requests.Response:
        raise ValueError("Invalid IPv6 URL")  # as requests does for `Location: http://[::1`

    with pytest.raises(requests.RequestException, match="leads to an address that is none"):
        fetch.fetched(send, 10.0, 1000)


def test_what_the_request_raises_is_raised() -> None:
    def send() -> requests.Response:
        raise requests.ConnectionError("refused")

    with pytest.raises(requests.ConnectionError, match="refused"):
        fetch.fetched(send, 5, 1 << 20)


@pytest.mark.parametrize("url", ["foo", "http://h:99999/", "http://h\n/", "http://h..h/", f"http://{'h' * 64}/"])
def test_check_of_what_is_no_address_is_a_wrong_option(url: str) -> None:
    done = run("check", "--check.url", url)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert done.stderr.startswith("gpu-exporter: --check.url: expected http://HOST or https://HOST, got ")


def test_password_in_an_address_is_not_shown() -> None:
    done = run("check", "--check.url", "http://ada:sesame@127.0.0.1:1/metrics")

    assert done.stdout == "unknown: http://127.0.0.1:1/metrics does not answer: no connection\n"
