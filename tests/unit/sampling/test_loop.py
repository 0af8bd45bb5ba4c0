"""The loop of the cycles: one an interval, none made up for, the last snapshot for everybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.sampling import sampler as module
from exporter.sampling.sampler import Loop
from exporter.sampling.snapshot import NodeStatus, Snapshot


class Started:
    """Takes note of what a thread is started with."""

    def __init__(self) -> None:
        self.threads: list[tuple[str, float]] = []

    def start(self, name: str, run: Callable[[], None], *, longest_pause: float) -> None:
        self.threads.append((name, longest_pause))
        run()


def cycles(
    monkeypatch: pytest.MonkeyPatch, lasting: list[float], interval: float = 1.0
) -> tuple[Loop, list[float], Started]:
    """A loop that ends after as many cycles as `lasting` has; the seconds it waited after each."""
    now, waits, published = [100.0], [], []
    monkeypatch.setattr(module, "monotonic_time", lambda: now[0])
    left = list(lasting)

    def run_cycle() -> Snapshot:
        now[0] += left.pop(0)
        return Snapshot(NodeStatus(cycles=len(lasting) - len(left)))

    loop = Loop(run_cycle, interval, published.append)

    def wait(seconds: float) -> None:
        waits.append(round(seconds, 6))
        now[0] += seconds
        if not left:
            loop.stop()

    monkeypatch.setattr(loop._stopped, "wait", wait)
    threads = Started()
    loop.start(threads)  # type: ignore[arg-type]
    assert [snapshot.status.cycles for snapshot in published] == list(range(1, len(lasting) + 1))
    assert loop.snapshot is published[-1]
    assert loop.alive_at == now[0] - waits[-1]
    return loop, waits, threads


def test_cycles_keep_their_pace_whatever_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    _, waits, threads = cycles(monkeypatch, [0.25, 0.5, 0.125])

    assert waits == [0.75, 0.5, 0.875]
    assert threads.threads == [("sampler", 1.0)]


def test_missed_cycles_are_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cycles(monkeypatch, [5.0, 0.25, 0.25])[1] == [0.0, 0.75, 0.75]


def test_before_the_first_cycle_there_is_an_empty_snapshot_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "monotonic_time", lambda: 7.0)
    loop = Loop(Snapshot, 1.0, lambda _: None)

    assert (loop.alive_at, loop.snapshot.not_ready) == (7.0, "no cycle has ended yet")
