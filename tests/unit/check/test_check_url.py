"""`gpu-exporter check --check.url`: what a page must be, and what becomes of one that is something else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from exporter.tools.check import exporter_page
from tests.command import run


@contextmanager
def serving(status: int, body: str) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode(errors="surrogateescape"))

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [(500, "", "answers 500"), (200, "up 1\n", "not the metrics of gpu-exporter"), (200, "<html>", "does not serve")],
)
def test_url_that_serves_something_else_is_unknown(status: int, body: str, says: str) -> None:
    with serving(status, body) as url:
        done = run("check", "--check.url", url)

    assert done.returncode == 3
    assert says in done.stdout


OURS = "gpu_exporter_build_info 1\n"


@pytest.mark.parametrize(
    "body",
    [
        OURS,
        OURS + "gpu_exporter_driver_up 1\n",
        OURS + 'gpu_devices{source="driver"} 0\n',
        OURS + 'gpu_up{gpu="0",uuid="u"} 0\n',
    ],
)
def test_url_without_a_gpu_is_never_ok(body: str) -> None:
    with serving(200, body) as url:
        done = run("check", "--check.url", url, "--format", "nagios", "--check.deadline", "5s")

    assert done.returncode in {2, 3}
    assert not done.stdout.startswith("GPU OK")


@pytest.mark.parametrize(
    "series",
    [
        'gpu_up{gpu="x"} 1',
        "gpu_up 1",
        'gpu_expected_devices{source="option"} +Inf',
        "gpu_expected_devices 4",
        'gpu_expected_devices{source="option"} NaN',
        "gpu_exporter_faults_incomplete 1",
        'gpu_up{gpu="0",uuid="u"} 1\ngpu_fault_timestamp_seconds{gpu="0"} NaN',
        'gpu_up{gpu="0",uuid="u"} 1\ngpu_xid_errors_total{gpu="0"} NaN',
        'gpu_up{gpu="0",uuid="u"} 1\ngpu_fabric_state 1',
    ],
)
def test_url_with_odd_series_gives_a_verdict_and_no_traceback(series: str) -> None:
    with serving(200, OURS + series + "\n") as url:
        done = run("check", "--check.url", url, "--format", "json", "--check.deadline", "5s")

    assert json.loads(done.stdout)["verdict"] == {0: "ok", 1: "degraded", 2: "failed", 3: "unknown"}[done.returncode]
    assert done.stderr == ""


def test_url_with_a_large_page_is_unknown_and_is_not_read_to_its_end() -> None:
    with serving(200, OURS + "# \n" * (3 << 20)) as url:
        done = run("check", "--check.url", url, "--check.deadline", "20s")

    assert (done.returncode, "answers with more than 8 MiB" in done.stdout) == (3, True)


def test_url_whose_page_takes_long_to_judge_is_unknown_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter_page, "parse", lambda *_: threading.Event().wait(30))
    with serving(200, OURS) as url:
        done = run("check", "--check.url", url, "--check.deadline", "200ms")

    assert (done.returncode, "no verdict within 0.2 s" in done.stdout) == (3, True)


def test_nobody_at_the_url_is_unknown() -> None:
    done = run("check", "--check.url", "http://127.0.0.1:1/metrics", "--format", "nagios")

    assert (done.returncode, done.stdout.partition(" | ")[0]) == (
        3,
        "GPU UNKNOWN - http://127.0.0.1:1/metrics does not answer: no connection",
    )


def test_byte_that_is_no_text_costs_no_verdict() -> None:
    page = OURS + 'gpu_up{gpu="0",uuid="u"} 1\n# \udcff\n'
    with serving(200, page) as url:
        done = run("check", "--check.url", url, "--format", "nagios", "--check.deadline", "5s")

    assert (done.returncode, done.stdout.partition(" | ")[0]) == (0, "GPU OK - 1 GPU reachable")
