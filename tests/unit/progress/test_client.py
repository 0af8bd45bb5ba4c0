"""What the client for programs says of one: which rank, how far, how long it still takes; on a clock of the test's."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy/progress"))

gpu_progress: Any = import_module("gpu_progress")
RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(gpu_progress, "_clock", made)
    monkeypatch.setattr(gpu_progress, "_made", [])
    for name in RANKS:
        monkeypatch.delenv(name, raising=False)
    return made


def made(path: str = "/nowhere/progress.sock", **given: Any) -> Any:
    return gpu_progress.Progress(path, interval=0.0, **given)


@pytest.mark.parametrize("name", RANKS)
def test_rank_is_what_the_launcher_says(clock: Clock, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert clock.now
    assert "rank" not in made().report()
    monkeypatch.setenv(name, "3")

    assert made().report()["rank"] == 3
    assert made(rank=5).report()["rank"] == 5


def test_ranks_of_torchrun_within_one_task_of_slurm_are_its_own(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clock.now
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("RANK", "6")

    assert made().rank == 6


def test_program_that_goes_on_from_a_checkpoint_says_what_is_left(clock: Clock) -> None:
    progress = made(total=100, done=40)
    assert progress.report() == {"version": 1, "pid": os.getpid(), "total": 100.0, "progress": 0.4}
    clock.now += 50
    for _ in range(10):
        progress.step()
    sent = progress.report()

    assert (sent["progress"], sent["remaining_seconds"]) == (0.5, 250.0)


def test_program_that_does_more_than_it_said_is_done(clock: Clock) -> None:
    progress = made(total=10, done=5)
    clock.now += 10
    progress.step(20)
    sent = progress.report()

    assert (sent["progress"], sent["remaining_seconds"]) == (1.0, 0.0)


def test_seconds_of_steps_are_those_from_the_first_to_the_last_without_waits_for_ranks(clock: Clock) -> None:
    progress = made(group_size=2)
    for _ in range(4):
        clock.now += 3
        with progress.phase("communication"):
            clock.now += 1
        progress.step()
    sent = progress.report()

    assert (sent["steps"], sent["step_seconds"], sent["phases"], sent["group_size"]) == (
        4, 9.0, {"communication": 4.0}, 2,
    )  # fmt: skip
    assert "group_size" not in made().report()


def test_totals_that_a_program_counts_itself_are_steps_too(clock: Clock) -> None:
    progress = made()
    progress.set(steps=10, samples=640)
    clock.now += 5
    progress.set(steps=20, samples=1280)

    sent = progress.report()
    assert (progress.steps, sent["steps"], sent["samples"], sent["step_seconds"]) == (20, 20, 1280, 5.0)


def test_target_is_reached_once(clock: Clock) -> None:
    progress = made()
    for seconds in (60, 40):
        clock.now += seconds
        progress.reached_target()

    assert progress.report()["time_to_target_seconds"] == 60.0


def test_what_a_loader_takes_to_begin_and_for_each_item_is_data(clock: Clock) -> None:
    class Loader:
        def __iter__(self) -> Any:
            clock.now += 5  # workers are started
            for item in range(3):
                clock.now += 1
                yield item

    class Eager(Loader):
        def __iter__(self) -> Any:
            return iter(list(super().__iter__()))

    for loader, seconds in ((Loader(), 8.0), (Eager(), 8.0)):
        progress = made(f"/nowhere/{seconds}/{id(loader)}")
        for _ in progress.data(loader):
            clock.now += 100
        assert progress.report()["phases"] == {"data": seconds}


def test_decorated_function_is_counted_also_when_it_fails(clock: Clock) -> None:
    progress = made()

    @progress.phase("forward")
    def forward() -> None:
        clock.now += 2
        raise KeyError

    with pytest.raises(KeyError):
        forward()
    clock.now += 50

    assert progress.phase("forward").seconds == 2.0


def test_what_is_forked_off_says_nothing_and_does_not_end_the_program_that_trains(
    clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock.now
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.setblocking(False)  # noqa: FBT003 - the standard library's
        progress = made(path)
        progress.step()
        with monkeypatch.context() as forked:
            forked.setattr(os, "getpid", lambda: 1)
            progress.close()
        with pytest.raises(BlockingIOError):
            receiver.recv(4096)
        progress.close()
        assert json.loads(receiver.recv(4096))["steps"] == 1


def test_fork_while_a_report_was_sent_holds_up_no_later_one_for_ever(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert clock.now
    monkeypatch.setattr(gpu_progress, "_LOCK_TIMEOUT_SECONDS", 0.01)
    progress = made()
    progress.step()
    thread = threading.Thread(target=progress.send, daemon=True)
    with progress._sending:
        thread.start()
        thread.join(20)
        assert not thread.is_alive()
