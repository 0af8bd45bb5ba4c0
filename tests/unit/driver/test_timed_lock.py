from __future__ import annotations

import threading
import time

import pytest

from exporter.driver.nvml.gpm import TimedLock

_FOREVER = 30.0


def _in_thread(gate: TimedLock, entered: threading.Event, leave: threading.Event) -> threading.Thread:
    def run() -> None:
        with gate.hold():
            entered.set()
            leave.wait(_FOREVER)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_threads_pass_one_at_a_time() -> None:
    gate, inside, most = TimedLock(_FOREVER), [0], [0]

    def run() -> None:
        for _ in range(50):
            with gate.hold():
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0)
                inside[0] -= 1

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_FOREVER)

    assert most == [1]


def test_a_second_thread_waits_for_the_first() -> None:
    gate, first, second, leave = TimedLock(_FOREVER), threading.Event(), threading.Event(), threading.Event()
    _in_thread(gate, first, leave)
    assert first.wait(_FOREVER)
    _in_thread(gate, second, leave)

    assert not second.wait(0.05)
    leave.set()
    assert second.wait(_FOREVER)


def test_a_hung_holder_loses_the_gate_and_its_return_frees_nobody_else() -> None:
    gate, hung, second, third = TimedLock(0.05), threading.Event(), threading.Event(), threading.Event()
    hung_leaves, second_leaves = threading.Event(), threading.Event()
    stuck = _in_thread(gate, hung, hung_leaves)
    assert hung.wait(_FOREVER)
    _in_thread(gate, second, second_leaves)
    assert second.wait(_FOREVER)

    hung_leaves.set()
    stuck.join(_FOREVER)
    assert gate._holder is not None
    second_leaves.set()
    _in_thread(gate, third, second_leaves)
    assert third.wait(_FOREVER)
    assert gate._waiting == 0


def test_an_exception_inside_opens_the_gate() -> None:
    gate, entered, leave = TimedLock(_FOREVER), threading.Event(), threading.Event()
    leave.set()
    with pytest.raises(OSError, match="inside"), gate.hold():
        raise OSError("inside")
    _in_thread(gate, entered, leave)

    assert entered.wait(_FOREVER)
