"""What is entered twice, or evaluated and saved outside of a training: nothing goes on for ever, nothing is made up."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.progress.test_callbacks import callbacks, gpu_progress, provide


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gpu_progress, "_made", [], raising=False)
    return gpu_progress.Progress("/nowhere/progress.sock", interval=0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    now = SimpleNamespace(seconds=1e6)
    monkeypatch.setattr(gpu_progress, "_clock", lambda: now.seconds)
    return now


def test_phase_entered_within_itself_makes_up_no_seconds(progress: Any, clock: Any) -> None:
    """As by a callback and by the program's own loader: the time since the machine's start was counted."""
    data = progress.phase("data")
    with data:
        clock.seconds += 3.0
        for _ in progress.data([1]):
            pass
        clock.seconds += 1.0

    assert 3.0 <= data.seconds <= 4.0


def test_function_that_calls_itself_is_counted_once(progress: Any, clock: Any) -> None:
    phase = progress.phase("tree")

    @phase
    def walk(depth: int) -> None:
        clock.seconds += 1.0
        if depth:
            walk(depth - 1)

    walk(4)

    assert phase.seconds == 5.0


def test_iterator_can_be_asked_for_its_next_item(progress: Any, clock: Any) -> None:
    def slow() -> Any:
        clock.seconds += 2.0
        yield 7

    batches = progress.data(slow())

    assert next(batches) == 7
    assert progress.phase("data").seconds == 2.0


def sent(each: Any) -> Any:
    return pickle.loads(pickle.dumps(each))  # noqa: S301 - made a moment ago


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, sent])
def test_loader_can_be_copied(progress: Any, copied: Callable[[Any], Any]) -> None:
    assert list(copied(progress.data([1, 2]))) == [1, 2]


def test_rank_that_is_no_number_stops_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "²")

    assert gpu_progress.Progress("/nowhere/progress.sock", interval=0.0).rank is None


def framework(name: str, progress: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))
    provide(monkeypatch, "keras.callbacks", "Callback")
    provide(monkeypatch, "lightning.pytorch.callbacks", "Callback")
    provide(monkeypatch, "transformers", "TrainerCallback")
    callback = getattr(callbacks, name)(progress)
    callback.params = {"steps": 1, "epochs": 1}
    return callback


HF_ARGS = SimpleNamespace(train_batch_size=1, gradient_accumulation_steps=1)
HF_STATE = SimpleNamespace(max_steps=4, global_step=0)
HF = (HF_ARGS, HF_STATE, SimpleNamespace(should_save=False, should_evaluate=False))
TRAINER = SimpleNamespace(estimated_stepping_batches=4, global_step=0)


@pytest.mark.parametrize(
    ("name", "arguments", "hooks", "within"),
    [
        ("hugging_face", HF, ["on_prediction_step", "on_evaluate"], "data"),
        ("hugging_face", HF, ["on_prediction_step", "on_predict"], "data"),
        ("lightning", (TRAINER, None), ["on_validation_start", "on_validation_end"], "data"),
        ("lightning", (TRAINER, None), ["on_save_checkpoint"], "checkpoint"),
        ("keras", (), ["on_test_begin", "on_test_end"], "data"),
    ],
)
def test_evaluation_before_and_after_a_training_leaves_no_phase_open(
    progress: Any, monkeypatch: pytest.MonkeyPatch, name: str, arguments: Any, hooks: list[str], within: str
) -> None:
    """A notebook that evaluates once more waited for data, or wrote a checkpoint, for as long as it was open."""
    callback = framework(name, progress, monkeypatch)
    begin, end = ("on_train_start", "on_train_end") if name == "lightning" else ("on_train_begin", "on_train_end")
    open_after: list[str] = []
    for around in ([], [begin], [end]):
        for hook in (*around, *hooks):
            getattr(callback, hook)(*arguments)
        open_after.append(callback._stage.name)

    assert open_after == ["", within, ""]


def test_threads_that_count_at_once_lose_nothing(progress: Any) -> None:
    """As those of a server do."""

    def serve() -> None:
        for _ in range(5000):
            progress.add(requests=1, tokens=3)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=serve) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    report = progress.report()

    assert (report["requests"], report["tokens"]) == (20000, 60000)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_while_another_thread_counts_leaves_the_child_free_to_count(progress: Any) -> None:
    """And it reports nothing of what its parent had counted."""
    held, release = threading.Event(), threading.Event()

    class Slow(dict[str, float]):
        def get(self, *_: Any) -> Any:
            held.set()
            release.wait(60)
            return 0.0

    progress._counters = Slow()
    counting = threading.Thread(target=progress.add, kwargs={"requests": 1})
    counting.start()
    held.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(30)  # it ends also where it would wait for ever
        progress._counters = {}
        progress.add(requests=1)
        os._exit(0 if progress._counters and not progress.send() else 1)
    release.set()
    counting.join()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_child_that_was_forked_off_reports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What its parent had counted would count twice: a report is its sender's."""
    monkeypatch.setattr(gpu_progress, "_made", [])
    path = tmp_path / "p"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        progress = gpu_progress.Progress(str(path), interval=0.0)
        progress.step(samples=8)
        child = os.fork()
        if not child:
            os._exit(int(progress.send()))

        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert progress.send()
        progress.close()


def _rank_of_a_pool(path: str) -> None:
    gpu_progress.Progress(path, interval=1e6).step(samples=8)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
def test_process_of_multiprocessing_says_its_last_totals(tmp_path: Path, start: str) -> None:
    """It ends without Python's own exit handlers: the last second of each rank was lost."""
    path = tmp_path / "p"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(path))
        rank = multiprocessing.get_context(start).Process(target=_rank_of_a_pool, args=(str(path),))
        rank.start()
        rank.join(60)
        server.settimeout(0.0)
        report = json.loads(server.recv(4096))

    assert (report["samples"], report["pid"]) == (8, rank.pid)


@pytest.mark.parametrize("name", ["hugging_face", "keras"])
def test_training_that_is_stopped_with_its_cell_of_a_notebook_waits_for_no_data(
    progress: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No framework but Lightning tells of exceptions: until the kernel ended, its idle GPU was `wait_data`."""
    registered: list[Callable[..., None]] = []
    events = SimpleNamespace(
        register=lambda event, each: registered.append(each) if event == "post_run_cell" else None,
        unregister=lambda _, each: registered.remove(each),
    )
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(events=events)))
    callback = framework(name, progress, monkeypatch)
    callback.on_train_begin(*(HF if name == "hugging_face" else ()))
    assert callback._stage.name == "data"
    for each in tuple(registered):
        each("its result")

    assert (callback._stage.name, callback._stage.between, registered) == ("", "", [])
