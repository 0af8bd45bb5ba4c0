"""Questions about one GPU that may hang: what is said of it, of the others, and where no thread is to be had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from exporter.driver.nvml import apart
from exporter.driver.nvml.apart import Apart, HungError
from tests.unit.sampling.scripted import until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    opened = threading.Event()
    yield opened
    opened.set()


def test_gpu_that_hangs_is_asked_again_once_it_has_returned(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    asker, asked = Apart(), threading.Semaphore(0)

    def hangs() -> None:
        asked.release()
        gate.wait()

    monkeypatch.setattr(apart, "NEXT_AFTER_SECONDS", 0.01)
    monkeypatch.setattr(apart, "ANSWER_TIMEOUT_SECONDS", 0.01)
    for _ in range(3):
        with pytest.raises(HungError):
            asker.ask_all({0: hangs})[0]()
    assert asked.acquire(timeout=20)
    gate.set()
    until(lambda: all(each.name != "apart" for each in threading.enumerate()))
    monkeypatch.setattr(apart, "NEXT_AFTER_SECONDS", 60.0)

    assert asker.ask_all({0: lambda: "asked"})[0]() == "asked"
    assert not asked.acquire(blocking=False), "asked while an earlier call was out"


def test_gpus_that_hang_are_waited_for_together(monkeypatch: pytest.MonkeyPatch, gate: threading.Event) -> None:
    """Half of a node of eight would have kept the others unseen for forty seconds."""
    waits = list[float]()
    take = apart._take_answer

    def brief(answers: Any, found: Any, seconds: float) -> bool:
        waits.append(seconds)
        return take(answers, found, 60.0 if len(waits) == 5 else 0.01)  # the fifth is the GPU that answers

    monkeypatch.setattr(apart, "_take_answer", brief)

    found = Apart().ask_all({**dict.fromkeys(range(4), gate.wait), 4: lambda: True})

    assert found[4]()
    for index in range(4):
        with pytest.raises(HungError):
            found[index]()
    assert waits == [apart.NEXT_AFTER_SECONDS] * 5 + [apart.ANSWER_TIMEOUT_SECONDS]


def test_gpu_that_answers_while_the_next_ones_are_asked_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that wakes up holds the others up in the driver: as long as any answers, all have time."""
    monkeypatch.setattr(apart, "NEXT_AFTER_SECONDS", 0.01)
    second = threading.Event()

    def wakes() -> str:
        second.wait()
        return "awake"

    def after() -> str:
        second.set()
        return "at once"

    found = Apart().ask_all({0: wakes, 1: after})

    assert [found[index]() for index in (0, 1)] == ["awake", "at once"]


def test_without_a_thread_it_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)

    assert Apart().ask_all({0: lambda: threading.current_thread() is threading.main_thread()})[0]()
