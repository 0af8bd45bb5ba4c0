"""The callbacks by the hook names that the frameworks document; `make frameworks` runs them in the frameworks."""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from exporter import __version__
from exporter.progress.protocol import parse

CLIENT = Path(__file__).resolve().parents[3] / "deploy/progress"
sys.path.insert(0, str(CLIENT))

gpu_progress: Any = import_module("gpu_progress")
callbacks: Any = import_module("gpu_progress_callbacks")


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gpu_progress, "_made", [], raising=False)
    return gpu_progress.Progress("/nowhere/progress.sock", interval=0.0)


def provide(monkeypatch: pytest.MonkeyPatch, name: str, base: str) -> None:
    module = ModuleType(name)
    setattr(module, base, type(base, (), {}))
    monkeypatch.setitem(sys.modules, name, module)


def test_client_has_the_exporters_version_and_the_package_takes_it_from_there() -> None:
    assert gpu_progress.__version__ == __version__
    assert re.search(r'\[tool.hatch.version\]\npath = "gpu_progress.py"', (CLIENT / "pyproject.toml").read_text())


def test_hugging_face(progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    provide(monkeypatch, "transformers", "TrainerCallback")
    callback = callbacks.hugging_face(progress, tokens=512)
    args = SimpleNamespace(train_batch_size=8, gradient_accumulation_steps=2)
    state = SimpleNamespace(max_steps=20, global_step=10)
    control = SimpleNamespace(should_save=True, should_evaluate=True)
    callback.on_train_begin(args, state, control, model=None)
    callback.on_step_begin(args, state, control)
    callback.on_pre_optimizer_step(args, state, control)
    state.global_step = 11
    callback.on_step_end(args, state, control)
    assert callback._stage.name == "evaluation"
    callback.on_evaluate(args, state, control, metrics={})
    assert callback._stage.name == "checkpoint"
    callback.on_save(args, state, control)
    callback.on_train_end(args, state, control)
    report = progress.report()

    assert (report["steps"], report["samples"], report["tokens"], report["progress"]) == (1, 16, 512, 0.55)
    assert set(report["phases"]) == {"data", "forward_backward", "optimizer", "evaluation", "checkpoint"}


def test_lightning_under_its_older_name(progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightning.pytorch.callbacks", None)
    provide(monkeypatch, "pytorch_lightning.callbacks", "Callback")
    monkeypatch.setitem(sys.modules, "pytorch_lightning", ModuleType("pytorch_lightning"))
    callback = callbacks.lightning(progress)
    trainer = SimpleNamespace(estimated_stepping_batches=float("inf"), global_step=0)
    callback.on_train_start(trainer, None)
    callback.on_train_batch_start(trainer, None, [1, 2, 3], 0)
    callback.on_before_backward(trainer, None, 0.5)
    callback.on_after_backward(trainer, None)
    trainer.global_step = 1
    callback.on_train_batch_end(trainer, None, None, {"text": [1, 2, 3]}, 0)
    callback.on_exception(trainer, None, ValueError())
    report = progress.report()

    assert (report["steps"], report["samples"]) == (1, 3)
    assert "total" not in report


def test_steps_of_a_second_fit_are_added(progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fit counts its steps from 0."""
    provide(monkeypatch, "lightning.pytorch.callbacks", "Callback")
    provide(monkeypatch, "transformers", "TrainerCallback")
    for _ in range(2):
        callback = callbacks.lightning(progress)
        trainer = SimpleNamespace(estimated_stepping_batches=4, global_step=0)
        callback.on_train_start(trainer, None)
        trainer.global_step = 3
        callback.on_train_batch_end(trainer, None, None, [1], 0)
    assert (progress.report()["steps"], progress.report()["progress"]) == (6, 0.75)

    other = callbacks.hugging_face(progress)
    args, state = SimpleNamespace(train_batch_size=1, gradient_accumulation_steps=1), SimpleNamespace(max_steps=4)
    state.global_step = 0
    other.on_train_begin(args, state, None)
    state.global_step = 1
    other.on_step_end(args, state, SimpleNamespace(should_save=False, should_evaluate=False))
    assert (progress.report()["steps"], progress.report()["progress"]) == (7, 0.25)


def test_second_progress_of_a_process_counts_on(progress: Any) -> None:
    progress.total = 10
    for _ in range(10):
        progress.step(samples=2)
    progress.phase("data").add(3.0)
    again = gpu_progress.Progress("/nowhere/progress.sock", interval=0.0, total=10)
    elsewhere = gpu_progress.Progress("/nowhere/else.sock", interval=0.0)
    again.step(samples=2)
    again.phase("data").add(4.0)
    report = again.report()

    assert (report["steps"], report["samples"], report["phases"], report["progress"]) == (11, 22, {"data": 7.0}, 0.1)
    assert elsewhere.report() == {"version": 1, "pid": report["pid"]}
    assert not progress._newest()  # what it sends no more by itself
    again._part.stopped = True
    assert progress._newest()


def test_first_progress_reports_on_once_the_second_has_ended(tmp_path: Path) -> None:
    """As where an evaluation within the training makes one of its own, and closes it."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(20.0)
        first = gpu_progress.Progress(path, interval=0.01)
        first.step()
        second = gpu_progress.Progress(path, interval=0.01)
        for _ in range(20):  # the first has seen meanwhile that the second reports for both
            assert json.loads(receiver.recv(4096))["steps"] == 1
        second.close()
        first.step(2)
        while json.loads(receiver.recv(4096))["steps"] != 3:
            pass
        first.close()


class Tensor:
    """Adds up as one, which JSON does not know."""

    def __radd__(self, other: float) -> Tensor:
        return self

    def __float__(self) -> float:
        return 4096.0


def test_tensors_are_counted_and_what_is_no_number_silences_nothing(progress: Any) -> None:
    progress.total = Tensor()
    progress.step(tokens=Tensor(), samples="many")
    progress.step(tokens=Tensor(), samples=2)
    progress.step(Tensor())
    progress.add(epochs=Tensor())
    progress.set(requests=Tensor())
    sent = json.loads(json.dumps(progress.report()))

    assert (sent["steps"], sent["tokens"], sent["samples"]) == (4098, 8192, 2)
    assert (sent["epochs"], sent["requests"], sent["total"]) == (4096, 4096, 4096)


def test_whole_number_beyond_what_a_float_holds_stops_no_program(progress: Any) -> None:
    progress.step(10**400, tokens=10**400, samples=2)
    progress.step(-(10**400), samples=-(10**400))
    progress.add(tokens=10**400)
    progress.set(requests=10**400)
    progress.step()
    sent = progress.report()

    assert (sent["steps"], sent["samples"], sent["tokens"], sent["requests"]) == (1, 2, 0, 0)


def test_optimizer_without_hooks_is_counted(progress: Any) -> None:
    hooks: dict[str, Any] = {}
    model = SimpleNamespace(
        training=True,
        register_forward_pre_hook=lambda hook: hooks.update(before=hook),
        register_forward_hook=lambda hook: hooks.update(after=hook),
    )
    optimizer = SimpleNamespace(step=lambda: "stepped")
    callbacks.torch_loop(progress, model, optimizer, samples=4)
    hooks["before"](model, ())
    hooks["after"](model, (), None)

    assert optimizer.step() == "stepped"
    assert (progress.report()["steps"], progress.report()["samples"]) == (1, 4)
    assert set(progress.report()["phases"]) == {"forward", "backward", "optimizer"}


def test_loader_stays_what_it_is(progress: Any) -> None:
    class Loader(list[int]):
        sampler = "sampler"

    loader: Any = progress.data(Loader([1, 2, 3]))

    assert (list(loader), list(loader), len(loader), loader.sampler) == ([1, 2, 3], [1, 2, 3], 3, "sampler")


def test_open_phase_is_counted_and_flops_of_a_transformer_are_palms(progress: Any) -> None:
    with progress.phase("checkpoint"):
        assert progress.report()["phases"]["checkpoint"] >= 0
        assert progress.phase("checkpoint").seconds > 0
    assert gpu_progress.transformer_flops(10, 2) == 120
    assert gpu_progress.transformer_flops(10, 1, layers=2, width=3, sequence=4) == 60 + 12 * 24
    assert gpu_progress.transformer_flops(10, 1, forward_only=True) == 20


def test_nothing_that_a_program_counts_or_names_silences_what_else_it_reports() -> None:
    """As of NumPy's numbers as ranks, a loss that is not a number, a phase per layer, a log line with a `version`."""
    path = "/nowhere/odd.sock"
    odd = gpu_progress.Progress(path, interval=0.0, rank=Decimal(3), group_size=Decimal(2))
    odd.step(samples=float("nan"), tokens=float("inf"))
    odd.step(samples=64, tokens=10, **{f"metric{number}": 1.0 for number in range(500)})
    odd.set(version=2, pid=1, rank=7)
    for name in [*range(200), ("a", 1), "\ud800", "\U0001f600" * 100, "data"]:
        odd.phase(name).add(1.0)
    odd.phase("data").add(float("nan"))
    text = json.dumps(odd.report(), ensure_ascii=False).encode("utf-8", "replace")
    report = parse(text)

    assert report
    assert (report.rank, report.group_size) == (3, 2)
    assert report.counters == {"samples": 64, "tokens": 10, "steps": 2}
    assert len(report.phases) == 16
    assert report.phases["data"] == 1.0


def test_socket_that_somebody_floods_is_waited_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without, one program that floods the socket silenced nearly all reports of the others."""
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(path)
        receiver.settimeout(20.0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as flood, suppress(BlockingIOError):
            flood.settimeout(0.0)
            while True:
                flood.sendto(b"{}", path)
        monkeypatch.setattr(gpu_progress, "_ROOM", struct.pack("ll", 20, 0))
        progress = gpu_progress.Progress(path, interval=0.0)
        progress.step()
        assert not progress.send()  # what the program calls itself never waits
        sending, report = threading.Event(), progress.report
        monkeypatch.setattr(progress, "report", lambda: sending.set() or report())
        reading = threading.Thread(target=lambda: sending.wait(20.0) and receiver.recv(4096))
        reading.start()
        assert progress._send()
        reading.join()


def test_progress_that_a_newer_one_reports_for_keeps_no_thread(tmp_path: Path) -> None:
    """As of each trial of a sweep that makes one: there was a thread for each until the program's end."""
    path = str(tmp_path / "nobody")
    made = [gpu_progress.Progress(path, interval=0.001) for _ in range(3)]
    for each in made[:2]:
        each._thread.join()
    made[2].close()

    assert made[1]._thread.is_alive()
    made[1].close()
    made[0].close()


def test_program_that_may_have_no_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", _no_thread)

    gpu_progress.Progress("/nowhere/progress.sock").step()


def _no_thread(_: object) -> None:
    raise RuntimeError("can't start new thread")


def test_bytes_that_are_no_text_do_not_end_the_pipe() -> None:
    """Who writes to it, the training, would end with it."""
    command = [sys.executable, str(CLIENT / "gpu_progress.py")]
    done = subprocess.run(
        command, input=b"\xff steps=2\n", env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"}, check=False
    )

    assert done.returncode == 0
