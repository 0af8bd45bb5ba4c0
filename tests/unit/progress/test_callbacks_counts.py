"""What frameworks tell of batches and steps in less usual runs, by hook names as they document them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.unit.progress.test_callbacks import callbacks, gpu_progress, provide


@pytest.fixture
def progress(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gpu_progress, "_made", [], raising=False)
    return gpu_progress.Progress("/nowhere/progress.sock", interval=0.0)


class Tensor:
    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __len__(self) -> int:
        return self.shape[0]


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (["a cat", "a dog on a mat"], 2),
        ({"id": ["x1", "x2", "x3"], "pixels": Tensor(3, 8)}, 3),
        ((Tensor(4, 8), ["a", "b", "c", "d"]), 4),
        ([b"..", b"..."], 2),
        ([], 0),
    ],
)
def test_batch_of_texts_has_as_many_samples_as_texts(batch: object, samples: float) -> None:
    """It had as many as the first text has letters."""
    assert callbacks.batch_size(batch) == samples


def test_batch_size_that_transformers_finds_itself_is_counted(progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`auto_find_batch_size` begins anew with half of it when memory runs out."""
    provide(monkeypatch, "transformers", "TrainerCallback")
    callback = callbacks.hugging_face(progress)
    args = SimpleNamespace(train_batch_size=16, gradient_accumulation_steps=2)
    state = SimpleNamespace(max_steps=20, global_step=0, train_batch_size=16)
    callback.on_train_begin(args, state)
    state.train_batch_size = 8
    callback.on_train_begin(args, state)
    state.global_step = 1
    callback.on_step_end(args, state, SimpleNamespace(should_save=False, should_evaluate=False))

    assert (progress.report()["steps"], progress.report()["samples"]) == (1, 16)


def test_keras_goes_on_from_an_epoch_and_takes_several_steps_at_once(
    progress: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By `initial_epoch` and `steps_per_execution`."""
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))
    provide(monkeypatch, "keras.callbacks", "Callback")
    callback = callbacks.keras(progress, batch_size=32)
    callback.params = {"steps": 6, "epochs": 10}
    callback.on_train_begin()
    for epoch in (5, 6):
        callback.on_epoch_begin(epoch)
        for batch in (0, 4):
            callback.on_train_batch_begin(batch)
            callback.on_train_batch_end(batch + 3)
        callback.on_epoch_end(epoch)
    report = progress.report()

    assert (report["steps"], report["samples"], report["epochs"]) == (12, 384, 2)
    assert (report["total"], report["progress"]) == (60, 0.7)


def test_two_steps_of_jax_compile_once(progress: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a discriminator and a generator: each compilation counted for both."""
    listeners: list[Callable[[str, float], None]] = []
    jax: Any = ModuleType("jax")
    jax.process_index = lambda: 0
    jax.monitoring = SimpleNamespace(register_event_duration_secs_listener=listeners.append)
    monkeypatch.setitem(sys.modules, "jax", jax)
    steps = [callbacks.jax_step(progress, lambda: None) for _ in range(2)]
    for listener in listeners:
        listener("/jax/core/compile/backend_compile_duration", 3.0)
    for step in steps:
        step()

    assert (progress.report()["steps"], progress.report()["phases"]) == (2, {"compile": 3.0})
