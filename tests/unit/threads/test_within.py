"""Work that ends, fails or hangs, waited for in another thread."""

from __future__ import annotations

import threading

import pytest

from exporter.core.threads import run_with_timeout


def test_what_it_returns_or_raises_is_passed_on() -> None:
    def fails() -> None:
        raise KeyError("x")

    assert run_with_timeout(30, lambda: 3) == 3
    with pytest.raises(KeyError, match="x"):
        run_with_timeout(30, fails)


def test_work_runs_in_a_daemon_thread_of_its_own_name() -> None:
    thread = run_with_timeout(30, threading.current_thread)

    assert (thread.name, thread.daemon) == ("within", True)


def test_what_hangs_is_left_to_itself() -> None:
    ended = threading.Event()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        run_with_timeout(0.01, ended.wait)
    ended.set()
