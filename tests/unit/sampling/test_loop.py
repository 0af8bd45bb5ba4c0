"""The loop of the passes: one an interval, none made up for, the last snapshot for everybody."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator

import pytest

from exporter.sampling import loop as module
from exporter.sampling.loop import Loop
from exporter.sampling.snapshot import NodeStatus, Snapshot


class Started:
    """Takes note of what a thread is started with."""

    def __init__(self) -> None:
        self.threads: list[tuple[str, float]] = []

    def start(self, name: str, run: Callable[[], None], *, longest_pause: float) -> None:
        self.threads.append((name, longest_pause))
        run()


def passes(
    monkeypatch: pytest.MonkeyPatch, lasting: list[float], interval: float = 1.0
) -> tuple[Loop, list[float], Started]:
    """A loop that ends after as many passes as `lasting` has; the seconds it waited after each."""
    now, waits, published = [100.0], [], []
    monkeypatch.setattr(module, "monotonic_time", lambda: now[0])
    left = list(lasting)

    def run_pass() -> Snapshot:
        now[0] += left.pop(0)
        return Snapshot(NodeStatus(passes=len(lasting) - len(left)))

    loop = Loop(run_pass, interval, published.append)

    def wait(seconds: float) -> None:
        waits.append(round(seconds, 6))
        now[0] += seconds
        if not left:
            loop.stop()

    monkeypatch.setattr(loop._wanted, "wait", wait)
    threads = Started()
    loop.start(threads)  # type: ignore[arg-type]
    assert [snapshot.status.passes for snapshot in published] == list(range(1, len(lasting) + 1))
    assert loop.snapshot is published[-1]
    assert loop.alive_at == now[0] - waits[-1]
    return loop, waits, threads


def test_passes_keep_their_pace_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    _, waits, threads = passes(monkeypatch, [0.25, 0.5, 0.125])

    assert waits == [0.75, 0.5, 0.875]
    assert threads.threads == [("sampler", 1.0)]


def test_missed_passes_are_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passes(monkeypatch, [5.0, 0.25, 0.25])[1] == [0.0, 0.75, 0.75]


def test_before_the_first_pass_there_is_an_empty_snapshot_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "monotonic_time", lambda: 7.0)
    loop = Loop(Snapshot, 1.0, lambda _: None)

    assert (loop.alive_at, loop.snapshot.not_ready) == (7.0, "no pass has ended yet")


def test_tick_without_a_pass_leaves_the_last_snapshot_and_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now, published = [50.0], []
    monkeypatch.setattr(module, "monotonic_time", lambda: now[0])
    ticks = [Snapshot(NodeStatus(passes=1)), None, None]
    loop = Loop(lambda: ticks.pop(0), 1.0, published.append)

    def wait(seconds: float) -> None:
        now[0] += seconds
        if not ticks:
            loop.stop()

    monkeypatch.setattr(loop._wanted, "wait", wait)
    loop.start(Started())  # type: ignore[arg-type]

    assert [snapshot.status.passes for snapshot in published] == [1]
    assert (loop.snapshot, loop.alive_at, now[0]) == (published[0], 52.0, 53.0)


class Ticking:
    """A loop whose ticks are done by hand."""

    def __init__(self, interval: float) -> None:
        self.begun: queue.Queue[int] = queue.Queue()
        self.may_end = threading.Semaphore(0)
        self.number = 0
        self.loop = Loop(self._tick, interval, lambda _: None)
        self.thread = threading.Thread(target=self.loop._run)
        self.thread.start()

    def _tick(self) -> Snapshot:
        self.number += 1
        self.begun.put(self.number)
        assert self.may_end.acquire(timeout=60)
        return Snapshot(NodeStatus(passes=self.number))

    def ask(self) -> tuple[threading.Thread, list[int]]:
        """Somebody who wants a tick now, and the number of the snapshot there is when the wait is over."""
        found: list[int] = []

        def wait() -> None:
            self.loop.tick_now(60)
            found.append(self.loop.snapshot.status.passes)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread, found


@pytest.fixture
def ticking() -> Iterator[Ticking]:
    found = Ticking(interval=3600)
    yield found
    found.loop.stop()
    found.may_end.release(100)
    found.thread.join(60)
    assert not found.thread.is_alive()


def test_who_cannot_wait_has_a_tick_at_once(ticking: Ticking) -> None:
    assert ticking.begun.get(timeout=60) == 1
    ticking.may_end.release()
    thread, found = ticking.ask()
    assert ticking.begun.get(timeout=60) == 2
    ticking.may_end.release()
    thread.join(60)

    assert found == [2]


def test_a_tick_under_way_may_have_begun_before_what_somebody_wants_to_see(ticking: Ticking) -> None:
    assert ticking.begun.get(timeout=60) == 1
    thread, found = ticking.ask()
    assert ticking.loop._wanted.wait(60)
    ticking.may_end.release()
    assert ticking.begun.get(timeout=60) == 2
    assert not found
    ticking.may_end.release()
    thread.join(60)

    assert found == [2]


def test_nobody_waits_for_ever(ticking: Ticking) -> None:
    assert ticking.begun.get(timeout=60) == 1

    ticking.loop.tick_now(0.0)

    assert ticking.loop.snapshot.status.passes == 0
