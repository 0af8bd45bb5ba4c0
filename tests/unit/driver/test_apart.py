"""Questions about one GPU that may hang: what is said of it, and where no thread is to be had."""

from __future__ import annotations

import threading

import pytest

from exporter.driver.nvml import apart
from exporter.driver.nvml.apart import Apart, HungError
from tests.unit.sampling.scripted import until


def test_gpu_that_hangs_is_asked_again_once_it_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    asker, asked, gate = Apart(), threading.Semaphore(0), threading.Event()

    def hangs() -> None:
        asked.release()
        gate.wait()

    monkeypatch.setattr(apart, "PATIENCE", 0.01)
    for _ in range(3):
        with pytest.raises(HungError):
            asker.ask(0, hangs)
    assert asked.acquire(timeout=20)
    gate.set()
    until(lambda: all(each.name != "within" for each in threading.enumerate()))
    monkeypatch.setattr(apart, "PATIENCE", 60.0)

    assert asker.ask(0, lambda: "asked") == "asked"
    assert not asked.acquire(blocking=False), "asked while an earlier call was out"


def test_without_a_thread_it_is_asked_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)

    assert Apart().ask(0, lambda: threading.current_thread() is threading.main_thread())
