"""Threads that fail are noticed, told and run again."""

from __future__ import annotations

import logging
import threading

import pytest

from exporter.core import threads as runner
from exporter.core.threads import Threads, ThreadState
from tests.attribution_kit.nodes import until


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PAUSES", (0.01,))


def test_thread_that_throws_is_run_again_and_told(caplog: pytest.LogCaptureFixture) -> None:
    threads, runs, go, end = Threads(), [0], threading.Event(), threading.Event()

    def run() -> None:
        runs[0] += 1
        if runs[0] < 4:
            raise KeyError("x")
        go.set()
        end.wait(20)

    with caplog.at_level(logging.ERROR):
        threads.start("one", run)
        assert go.wait(20)

    assert runs == [4]
    assert threads.states()["one"].down_since is None
    assert threads.states()["one"].failures == 3
    (told,) = [record for record in caplog.records if "thread one failed" in record.message]
    assert told.message == "thread one failed and is run again: KeyError('x')"
    assert told.exc_info is not None
    assert told.exc_info[0] is KeyError
    assert threads.longest_down() == ("", 0.0)
    end.set()


def test_failures_of_a_thread_that_has_ended_are_still_counted() -> None:
    threads, runs = Threads(), [0]

    def run() -> None:
        runs[0] += 1
        if runs[0] % 2:
            raise KeyError("x")

    for failures in (1, 2):
        threads.start("one", run, longest_pause=0.0)
        until(lambda: not any(thread.name == "one" for thread in threading.enumerate()))
        assert threads.states() == {"one": ThreadState(None, failures)}
    threads.start("two", lambda: None)
    until(lambda: "two" not in threads.states())


def test_thread_that_is_down_says_since_when() -> None:
    now = [100.0]
    threads = Threads(clock=lambda: now[0])
    hold = threading.Event()
    threads._stopped = hold  # the pause lasts until the test ends it

    def run() -> None:
        raise ValueError

    threads.start("one", run, longest_pause=20.0)
    until(lambda: threads.states()["one"].down_since)
    now[0] += 70

    assert threads.longest_down() == ("one", 70.0)
    hold.set()


def test_thread_that_cannot_be_started_is_started_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    threads, ran = Threads(), threading.Event()
    start = threading.Thread.start

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    threads.start("one", ran.set)
    down = threads.states()["one"]
    threads.revive()
    monkeypatch.setattr(threading.Thread, "start", start)
    threads.revive()

    assert ran.wait(20)
    assert down.down_since is not None
    assert [record.message for record in caplog.records] == [
        'thread one failed and is run again: RuntimeError("can\'t start new thread")'
    ]
