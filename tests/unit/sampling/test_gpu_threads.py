"""GPUs share a thread while they answer in time; one that does not keeps it, and the others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue

import pytest

from exporter.core import threads as runner
from exporter.sampling.gpu_threads import _STEADY, GpuThreads, runs
from tests.unit.sampling.scripted import until

PATIENCE = 10.0
Threads = GpuThreads[str]


def soon() -> float:
    return time.monotonic() + PATIENCE


def here() -> str:
    return threading.current_thread().name


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def held(gate: threading.Event) -> Callable[[], str]:
    def read() -> str:
        gate.wait(PATIENCE)
        return here()

    return read


def test_gpus_that_answer_are_read_in_order_on_one_thread() -> None:
    readers: Threads = GpuThreads(turn=PATIENCE)
    order: list[str] = []

    def read(name: str) -> Callable[[], str]:
        return lambda: (order.append(name), here())[1]

    for _ in range(3):
        found = readers.read({name: read(name) for name in "abc"}, soon())
        assert set(found.values()) == {"gpus"}

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


def test_gpus_are_not_asked_while_no_thread_can_be_started_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is known of them: they are not late."""
    readers: Threads = GpuThreads(turn=PATIENCE)
    with monkeypatch.context() as full:
        refused(full, "gpus")
        for _ in range(2):
            assert readers.read({"a": here, "b": here}, soon()) == {}
            assert readers.unasked == {"a", "b"}

    readers.threads.revive()

    assert readers.read({"a": here, "b": here}, soon()) == {"a": "gpus", "b": "gpus"}
    assert readers.unasked == set()
    readers.stop()


def test_gpu_that_is_late_is_told_from_those_that_nobody_can_ask_then(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: Threads = GpuThreads(turn=0.01)
    with monkeypatch.context() as full:
        refused(full, "gpus-2")
        found = readers.read({"late": held(gate), "other": here}, time.monotonic() + 0.2)

        assert found == {"late": None}
        assert readers.unasked == {"other"}

    gate.set()
    readers.stop()


def test_gpu_with_a_thread_of_its_own_that_has_failed_is_not_asked(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: Threads = GpuThreads(turn=0.01)
    readers.read({"late": held(gate), "other": here}, time.monotonic() + 0.2)
    gate.set()
    until(lambda: not any(worker.busy_seconds for worker in readers._own.values()))
    monkeypatch.setattr(readers.threads, "is_down", lambda name: name == "gpus")

    assert readers.read({"late": here, "other": here}, soon()) == {"other": "gpus-2"}
    assert readers.unasked == {"late"}
    readers.stop()


def test_thread_more_has_the_first_name_that_is_free() -> None:
    """Threads have series of their own: names are few, whatever comes and goes."""
    threads = runner.Threads()

    def another() -> tuple[Threads, str | None]:
        readers: Threads = GpuThreads(turn=PATIENCE)
        readers.threads = threads
        return readers, readers.read({"a": here}, soon())["a"]

    first, second, third = (another() for _ in range(3))
    assert [name for _, name in (first, second, third)] == ["gpus", "gpus-2", "gpus-3"]

    second[0].stop()
    until(lambda: "gpus-2" not in threads.states())
    fourth = another()
    assert fourth[1] == "gpus-2"
    for readers, _ in (first, third, fourth):
        readers.stop()


def test_gpu_that_hangs_keeps_the_thread_and_the_others_go_on(gate: threading.Event) -> None:
    readers: Threads = GpuThreads(turn=0.5)
    tasks = {"a": here, "b": held(gate), "c": here}

    first = readers.read(tasks, time.monotonic() + 1.5)
    second = readers.read(tasks, time.monotonic() + 1.5)

    assert (first["b"], first["a"] is None, first["c"] is None) == (None, False, False)
    assert "b" not in second
    assert second["c"] is not None
    assert readers.busy_seconds("b") > 0
    gate.set()
    while readers.busy_seconds("b"):
        time.sleep(0.005)
    third = readers.read({**tasks, "b": here}, soon())
    assert third["b"] == first["a"]  # the thread it kept
    readers.stop()


def test_slow_gpu_is_waited_for_until_the_deadline(gate: threading.Event) -> None:
    readers: Threads = GpuThreads(turn=0.01)
    found = readers.read({"a": lambda: (gate.set(), here())[1], "b": held(gate)}, soon())

    assert None not in found.values()
    readers.stop()


def test_gpu_that_keeps_to_its_turn_again_goes_back_to_the_thread_of_all(gate: threading.Event) -> None:
    readers: Threads = GpuThreads(turn=0.02)
    readers.read({"a": held(gate)}, time.monotonic() + 0.1)
    gate.set()
    while readers.busy_seconds("a"):
        time.sleep(0.005)
    readers._turn = PATIENCE

    for _ in range(_STEADY):
        assert "a" in readers._own
        readers.read({"a": here, "b": here}, soon())

    assert readers._own == {}
    assert set(readers.read({"a": here, "b": here}, soon()).values()) == {
        readers._shared.name if readers._shared else ""
    }
    readers.stop()


def test_read_that_raises_costs_passes_until_its_thread_runs_again() -> None:
    readers: Threads = GpuThreads(turn=PATIENCE)

    def fails() -> str:
        raise KeyError("bug")

    found = readers.read({"a": fails, "b": here}, soon())

    assert found.get("a") is None
    until(lambda: readers.threads.states()["gpus"].failures)
    until(lambda: not readers.threads.is_down("gpus"))
    assert readers.read({"a": here, "b": here}, soon()) == {"a": "gpus", "b": "gpus"}
    readers.stop()


def test_gpu_whose_thread_only_waits_for_a_cpu_stays_on_the_thread_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a node whose jobs use all its CPUs: its thread is asked for once each turn, and let on."""
    readers: Threads = GpuThreads(turn=0.01)
    asked: SimpleQueue[int] = SimpleQueue()
    monkeypatch.setattr("exporter.sampling.gpu_threads.runs", lambda thread: (asked.put(thread), True)[1])

    def starved() -> str:
        with suppress(Empty):
            for _ in range(3):
                while asked.get(timeout=PATIENCE) != threading.get_native_id():
                    pass
        return here()

    found = readers.read({"a": starved, "b": here}, soon())

    assert found == {"a": "gpus", "b": "gpus"}
    readers.stop()


def test_a_thread_runs_while_it_computes_and_not_while_it_waits(gate: threading.Event) -> None:
    waiting = threading.Thread(target=gate.wait, args=(PATIENCE,))
    waiting.start()

    assert runs(threading.get_native_id())
    deadline = soon()
    while runs(waiting.native_id or 0):
        assert time.monotonic() < deadline
    assert not runs(0)
    gate.set()
    waiting.join()
