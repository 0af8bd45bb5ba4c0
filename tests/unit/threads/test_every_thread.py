"""An error thrown into each thread of the process costs its own series for a moment, shows, and passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from exporter.attribution.kubernetes.api_server import PodWatch
from exporter.attribution.slurm.scontrol import JobCache
from exporter.config.load import load
from exporter.core import threads as runner
from exporter.core.threads import Threads
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.daemon.serve import Housekeeping, process_health
from exporter.driver.interface import DriverError
from exporter.exposition.page import PageStore
from exporter.web.app import App, PendingResponse, QueueName, RouteHandlers
from exporter.web.server import Server
from exporter.web.settings import WebSettings
from tests.attribution_kit.nodes import until


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PAUSES", (0.05,))


class Process:
    """The exporter's threads in this process, on simulated GPUs."""

    def __init__(self, *options: str) -> None:
        fast = (
            "--simulate",
            "2xH200",
            "--sample.interval",
            "50ms",
            "--sample.stale",
            "300ms",
        )
        settings = load(DaemonConfig, (*fast, *options), {})
        self.threads = Threads()
        self.web = WebSettings(None)
        self.pages = PageStore()
        self.exporter = assembly.assemble(
            settings, self.pages.publish, self.threads, lambda: process_health(self.threads, self.web)
        )
        self.keeping = Housekeeping(
            self.exporter, self.threads, self.web, self.pages, settings.sample.stale, threading.Event()
        )
        shown = RouteHandlers(self.pages.page, lambda: "", self.keeping.not_ready, self.keeping.unhealthy)
        self.server = Server(App(shown, "/metrics"), ("127.0.0.1", 0), 2, threads=self.threads)

    def start(self) -> None:
        self.exporter.start()
        self.server.start()
        until(lambda: self.exporter.snapshot.status.cycles > 1)

    def stop(self) -> None:
        self.server.stop()
        self.exporter.stop()

    def page(self) -> str:
        self.keeping.tick()
        return self.pages.page("")[1].decode()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    made.start()
    yield made
    made.stop()


def thrown_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """The next call of `owner.name` raises what nobody thought of."""
    real: Callable[..., Any] = getattr(owner, name)
    left = [1]

    def faulty(*arguments: Any, **named: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise AssertionError("thrown by the test")
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, faulty)


@pytest.mark.parametrize("thread", ["sampler", "driver", "gpus-0", "xid-nvml"])
def test_thread_of_the_sampling(thread: str, process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = process.exporter
    connection = parts._sampler.connection
    if thread == "gpus-0":
        workers = parts._sampler._gpus.threads._workers
        until(lambda: workers)
        worker = next(iter(workers.values()))
        until(lambda: worker.submit(_throw))
    elif thread == "sampler":
        thrown_once(monkeypatch, parts._loop, "_run_cycle")
    elif thread == "xid-nvml":
        thrown_once(monkeypatch, parts._sampler.xids, "set_source")
    else:
        thrown_once(monkeypatch, connection, "_attempt")
        connection.refresh(DriverError("ask again"))
    until(lambda: process.threads.states()[thread].failures)
    cycles = process.exporter.snapshot.status.cycles

    until(lambda: process.threads.states()[thread].down_since is None)
    until(lambda: process.exporter.snapshot.status.cycles > cycles + 3)
    until(lambda: f'gpu_exporter_thread_failures_total{{thread="{thread}"}} 1.0' in process.page())
    assert f'gpu_exporter_thread_up{{thread="{thread}"}} 1.0' in process.page()
    assert requests.get(f"http://127.0.0.1:{process.server.port}/-/healthy", timeout=10).status_code == 200


def _throw() -> Any:
    raise AssertionError("thrown by the test")


def test_thread_of_a_web_lane(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    work = [PendingResponse(QueueName.PAGE, _throw)]
    real = App._work
    monkeypatch.setattr(App, "_work", lambda *arguments: work.pop() if work else real(*arguments))
    url = f"http://127.0.0.1:{process.server.port}/metrics"
    with pytest.raises(requests.RequestException):
        requests.get(url, timeout=1)

    until(lambda: sum(state.failures for name, state in process.threads.states().items() if name.startswith("web-")))
    assert requests.get(url, timeout=10).status_code == 200


def test_thread_of_connections(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise SystemError("thrown by the test")

    until(lambda: process.server._manager)
    assert process.server._manager is not None
    loop = process.server._manager._loop
    monkeypatch.setattr(loop, "_run_once", broken)
    loop.call_soon_threadsafe(lambda: None)
    until(lambda: process.threads.states()["web"].failures)

    until(lambda: process.threads.states()["web"].down_since is None)
    assert requests.get(f"http://127.0.0.1:{process.server.port}/-/healthy", timeout=10).status_code == 200


def test_threads_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads()
    jobs = JobCache(lambda _: None)
    watch = PodWatch(None, "n", backoff=0.01)  # type: ignore[arg-type]
    monkeypatch.setattr(jobs, "answer_next", _throw)
    monkeypatch.setattr(watch, "_list", _throw)
    jobs.start(threads)
    watch.start(threads)

    until(lambda: threads.states()["scontrol"].failures > 1)
    until(lambda: watch.error)
    assert not watch.health(time.monotonic()).success
    jobs.stop()
    watch.stop()
    threads.stop()


def test_page_of_cycles_that_hang_loses_its_gauges_and_says_why(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "gpu_power_watts{" in process.page()
    energy = [line for line in process.page().splitlines() if line.startswith("gpu_energy_joules_total{")]
    release = threading.Event()
    monkeypatch.setattr(process.exporter._loop, "_run_cycle", lambda: release.wait(30))
    until(process.keeping.not_ready)

    page = process.page()
    assert process.keeping.not_ready().startswith("no cycle for ")
    assert "gpu_power_watts{" not in page
    assert "gpu_up{" in page
    assert [line for line in page.splitlines() if line.startswith("gpu_up{") and not line.endswith(" 0.0")] == []
    assert len(energy) == sum(line.startswith("gpu_energy_joules_total{") for line in page.splitlines())
    assert process.keeping.unhealthy() == ""
    monkeypatch.setattr("exporter.daemon.serve._HOPELESS_SECONDS", 0.0)
    assert process.keeping.unhealthy().startswith("no cycle for ")
    release.set()


def test_gpus_are_not_said_to_be_silent_while_no_thread_can_be_started_to_ask_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = threading.Thread.start
    full = True

    def starts(thread: threading.Thread) -> None:
        if full and thread.name.startswith("gpus"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    process = Process()
    process.start()
    page = process.pages.page("")[1].decode()

    assert 'gpu_exporter_thread_up{thread="gpus-0"} 0.0' in page
    assert "\ngpu_up{" not in page
    assert [gpu.up for gpu in process.exporter.snapshot.status.gpus] == [None, None]

    full = False
    until(lambda: 'gpu_up{gpu="1"' in process.page())
    assert [gpu.up for gpu in process.exporter.snapshot.status.gpus] == [True, True]
    process.stop()
