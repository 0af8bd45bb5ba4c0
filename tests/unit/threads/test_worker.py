"""A worker takes one task at a time and gives its result once."""

from __future__ import annotations

import math
import threading
import time

from exporter.core.worker import Worker
from tests.unit.sampling.scripted import DEADLINE, until


def test_worker_gives_a_result_once_and_takes_one_task_at_a_time() -> None:
    gate = threading.Event()
    worker: Worker[str] = Worker("test")

    assert worker.busy_seconds == 0
    assert worker.submit(lambda: (gate.wait(DEADLINE), "done")[1])
    assert not worker.submit(lambda: "second")
    assert worker.wait(time.monotonic() + 0.01) is None
    assert worker.busy_seconds > 0
    gate.set()
    assert worker.wait(time.monotonic() + DEADLINE) == "done"
    assert worker.wait(math.inf) is None  # it returns at once
    assert worker.busy_seconds == 0
    worker.stop()


def test_result_of_a_task_that_came_too_late_is_not_that_of_the_next_one() -> None:
    gate = threading.Event()
    worker: Worker[str] = Worker("late")
    worker.submit(lambda: (gate.wait(DEADLINE), "late")[1])
    assert worker.wait(time.monotonic()) is None
    gate.set()
    until(lambda: worker.busy_seconds == 0)

    assert worker.submit(lambda: "next")

    assert worker.wait(time.monotonic() + DEADLINE) == "next"
    worker.stop()


def test_worker_that_was_stopped_takes_nothing_and_its_thread_ends() -> None:
    worker: Worker[str] = Worker("stopped-worker")
    worker.stop()

    assert not worker.submit(lambda: "late")
    until(lambda: "stopped-worker" not in {thread.name for thread in threading.enumerate()})


def test_run_returns_the_result_or_none_while_the_task_before_runs() -> None:
    gate = threading.Event()
    worker: Worker[str] = Worker("run")

    assert worker.run(lambda: "first", DEADLINE) == "first"
    worker.submit(lambda: (gate.wait(DEADLINE), "second")[1])
    assert worker.run(lambda: "third", DEADLINE) is None
    gate.set()
    until(lambda: worker.busy_seconds == 0)
    assert worker.overdue() == "second"
    assert worker.overdue() is None
    worker.stop()
