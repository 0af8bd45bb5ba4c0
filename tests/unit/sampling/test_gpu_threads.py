"""Each GPU is read on a thread of its own: one that hangs costs itself alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from exporter.sampling.gpus import GpuThreads
from tests.unit.sampling.scripted import until

DEADLINE_SECONDS = 10.0
Threads = GpuThreads[str]


def threads() -> Threads:
    return GpuThreads(lambda uuid: f"gpus-{uuid}")


def soon() -> float:
    return time.monotonic() + DEADLINE_SECONDS


def here() -> str:
    return threading.current_thread().name


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def held(gate: threading.Event) -> Callable[[], str]:
    def read() -> str:
        gate.wait(DEADLINE_SECONDS)
        return here()

    return read


def test_gpus_that_answer_are_read_in_order_each_on_its_own_thread() -> None:
    readers, order = threads(), list[str]()

    def read(name: str) -> Callable[[], str]:
        return lambda: (order.append(name), here())[1]

    for _ in range(3):
        found = readers.read({name: read(name) for name in "abc"}, soon())
        assert found == {"a": "gpus-a", "b": "gpus-b", "c": "gpus-c"}

    assert order == list("abc") * 3
    readers.stop()


def refused(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Threads of these names cannot be started from now on."""
    start = threading.Thread.start

    def starts(thread: threading.Thread) -> None:
        if thread.name in names:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)


def test_gpu_whose_thread_cannot_be_started_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is known of it: it is not late."""
    readers = threads()
    with monkeypatch.context() as full:
        refused(full, "gpus-a")
        for _ in range(2):
            assert readers.read({"a": here, "b": here}, soon()) == {"b": "gpus-b"}
            assert readers.unasked == {"a"}

    readers.threads.revive()

    assert readers.read({"a": here, "b": here}, soon()) == {"a": "gpus-a", "b": "gpus-b"}
    assert readers.unasked == set()
    readers.stop()


def test_gpu_that_hangs_is_left_out_and_the_others_are_read(gate: threading.Event) -> None:
    readers = threads()
    tasks = {"a": here, "b": held(gate), "c": here}

    first = readers.read(tasks, time.monotonic() + 0.6)
    second = readers.read(tasks, time.monotonic() + 0.6)

    assert (first["a"], first["b"], first["c"]) == ("gpus-a", None, "gpus-c")
    assert second == {"a": "gpus-a", "c": "gpus-c"}
    assert readers.busy_seconds("b") > 0
    gate.set()
    until(lambda: not readers.busy_seconds("b"))
    assert readers.read({**tasks, "b": here}, soon())["b"] == "gpus-b"
    readers.stop()


def test_gpu_that_overstays_its_turn_is_read_beside_the_next_ones(gate: threading.Event) -> None:
    """The slow one waits for the other, whose turn comes after it."""
    readers = threads()
    found = readers.read({"slow": held(gate), "b": lambda: (gate.set(), here())[1]}, time.monotonic() + 2.0)

    assert found == {"slow": "gpus-slow", "b": "gpus-b"}
    readers.stop()


def test_result_of_an_earlier_read_is_taken_where_it_is_of_use(gate: threading.Event) -> None:
    readers = threads()
    assert readers.read({"a": held(gate)}, time.monotonic() + 0.05) == {"a": None}
    gate.set()
    until(lambda: not readers.busy_seconds("a"))

    assert readers.read({"a": lambda: "new"}, soon(), lambda late: late == "gpus-a") == {"a": "gpus-a"}
    assert readers.read({"a": lambda: "new"}, soon(), lambda late: late == "gpus-a") == {"a": "new"}
    readers.stop()


def test_result_of_an_earlier_read_that_is_of_no_use_is_dropped(gate: threading.Event) -> None:
    readers = threads()
    assert readers.read({"a": held(gate)}, time.monotonic() + 0.05) == {"a": None}
    gate.set()
    until(lambda: not readers.busy_seconds("a"))

    assert readers.read({"a": lambda: "new"}, soon(), lambda _: False) == {"a": "new"}
    readers.stop()


def test_read_that_raises_costs_its_gpu_until_its_thread_runs_again() -> None:
    readers = threads()

    def fails() -> str:
        raise KeyError("bug")

    assert readers.read({"a": fails, "b": here}, soon()) == {"a": None, "b": "gpus-b"}
    until(lambda: readers.threads.states()["gpus-a"].failures)
    until(lambda: not readers.threads.is_down("gpus-a"))
    assert readers.read({"a": here, "b": here}, soon()) == {"a": "gpus-a", "b": "gpus-b"}
    readers.stop()


def test_gpu_that_comes_back_in_its_call_is_not_called_again(gate: threading.Event) -> None:
    readers = threads()
    readers.read({"a": held(gate)}, time.monotonic() + 0.05)
    readers.read({}, soon())

    assert readers.read({"a": here}, soon()) == {}
    readers.stop()


def test_thread_of_a_replaced_gpu_is_taken_over_without_its_late_result(gate: threading.Event) -> None:
    readers: Threads = GpuThreads(lambda _: "gpus-0")
    readers.read({"old": held(gate)}, time.monotonic() + 0.05)
    gate.set()
    until(lambda: not readers.busy_seconds("old"))

    assert readers.read({"new": lambda: "new"}, soon(), lambda _: True) == {"new": "new"}
    assert len(readers._workers) == 1
    readers.stop()


def test_gpu_that_replaces_one_in_a_call_has_a_thread_of_its_own(gate: threading.Event) -> None:
    readers: Threads = GpuThreads(lambda _: "gpus-0")
    readers.read({"old": held(gate)}, time.monotonic() + 0.05)

    assert readers.read({"new": lambda: "new"}, soon()) == {"new": "new"}
    readers.stop()
