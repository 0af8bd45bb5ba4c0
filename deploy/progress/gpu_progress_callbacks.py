"""Progress from training frameworks, each in one line. Put it beside gpu_progress.py.

    Trainer(..., callbacks=[hugging_face(Progress())])           # transformers
    Trainer(..., callbacks=[lightning(Progress())])              # lightning, pytorch_lightning
    model.fit(..., callbacks=[keras(Progress(), batch_size=64)])
    torch_loop(progress, model, optimizer)                       # any PyTorch loop: forward, backward, optimizer, steps
    step = jax_step(progress, jax.jit(step), samples=64)         # JAX: steps and compilation
    progress = ray_train(); ray_report(progress)(metrics, checkpoint=checkpoint)

Steps are the optimizer's: with gradient accumulation several batches make one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

from gpu_progress import Phase, Progress

F = TypeVar("F", bound=Callable[..., Any])


class Stage:
    """One phase at a time: entering the next leaves the one before. An empty name is none.

    Between batches it is `data`, and none outside of a training: there nobody waits for a batch.
    """

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._phase: Phase | None = None
        self.name = ""
        self.between = ""

    def begin(self) -> None:
        """A training."""
        self.between = "data"
        self.enter(self.between)
        self._end_with_cell()

    def _end_with_cell(self) -> None:
        """End with a notebook's cell: of the frameworks only Lightning reports a training that is stopped or fails."""
        shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
        events: Any = getattr(shell, "events", None)

        def ended(*_: Any) -> None:
            events.unregister("post_run_cell", ended)
            self.end()

        if events is not None:
            events.register("post_run_cell", ended)

    def end(self) -> None:
        self.between = ""
        self.enter()

    def wait(self) -> None:
        """Wait for the next batch, if there is to be one."""
        self.enter(self.between)

    def enter(self, name: str = "") -> None:
        if self._phase is not None:
            self._phase.__exit__()
        self.name = name
        self._phase = self._progress.phase(name).__enter__() if name else None


def batch_size(batch: Any) -> float:
    """Return how many samples a batch has: the length of its first tensor, or of itself."""
    first: Any = batch
    while (inner := _first(first)) is not None:
        first = inner
    shape: Any = getattr(first, "shape", None)
    if shape is not None:
        return float(shape[0]) if len(shape) else 1.0
    return float(len(first)) if hasattr(first, "__len__") else 1.0


def _first(batch: Any) -> Any:
    """Return the first item of a list, tuple or mapping of tensors; None where it is none."""
    values: Any = getattr(batch, "values", None)
    if hasattr(batch, "shape") or not (values or type(batch) in {list, tuple}):
        return None
    items: list[Any] = list(values() if values else batch)
    first = items[0] if items else None
    return first if hasattr(first, "__len__") and not isinstance(first, (str, bytes)) else None


class _Lightning:
    """The hooks of Lightning's `Callback`."""

    def __init__(self, progress: Progress, samples: Callable[[Any], float]) -> None:
        super().__init__()
        self._progress = progress
        self._samples = samples
        self._stage = Stage(progress)
        self._first = 0.0

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        total = float(trainer.estimated_stepping_batches)
        if 0 < total < float("inf"):
            self._progress.total = total
        self._first = self._progress.done = float(trainer.global_step) - self._progress.steps
        self._stage.begin()

    def on_train_batch_start(self, *_: Any) -> None:
        self._stage.enter("forward")

    def on_before_backward(self, *_: Any) -> None:
        self._stage.enter("backward")

    def on_after_backward(self, *_: Any) -> None:
        self._stage.enter("optimizer")

    def on_train_batch_end(self, trainer: Any, _module: Any, _outputs: Any, batch: Any, *_: Any) -> None:
        self._progress.add(samples=self._samples(batch))
        self._progress.set(steps=float(trainer.global_step) - self._first)
        self._stage.enter("data")

    def on_validation_start(self, *_: Any) -> None:
        self._stage.enter("evaluation")

    def on_validation_end(self, *_: Any) -> None:
        self._stage.wait()

    def on_save_checkpoint(self, *_: Any) -> None:
        if self._stage.between:
            self._stage.enter("checkpoint")  # until the next batch

    def on_train_epoch_end(self, *_: Any) -> None:
        self._progress.add(epochs=1)

    def on_train_end(self, *_: Any) -> None:
        self._stage.end()

    on_exception = on_train_end


def lightning(progress: Progress, samples: Callable[[Any], float] = batch_size) -> Any:
    """A callback for Lightning's Trainer. `samples` returns how many a batch has."""
    try:
        base = import_module("lightning.pytorch.callbacks").Callback
    except ImportError:
        base = import_module("pytorch_lightning.callbacks").Callback
    return type("ProgressCallback", (_Lightning, base), {})(progress, samples)


class _HuggingFace:
    """The events of transformers' `TrainerCallback`: (args, state, control, ...)."""

    def __init__(self, progress: Progress, per_step: Mapping[str, float]) -> None:
        super().__init__()
        self._progress = progress
        self._given = per_step
        self._per_step = per_step
        self._stage = Stage(progress)
        self._first = 0.0

    def on_train_begin(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        if state.max_steps > 0:
            self._progress.total = float(state.max_steps)
        self._first = self._progress.done = float(state.global_step) - self._progress.steps
        size = (
            getattr(state, "train_batch_size", None) or args.train_batch_size
        )  # what `auto_find_batch_size` has found
        self._per_step = {"samples": float(size * args.gradient_accumulation_steps), **self._given}
        self._stage.begin()

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self._stage.enter("forward_backward")

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self._stage.enter("optimizer")

    def on_step_end(self, _args: Any, state: Any, control: Any, **__: Any) -> None:
        self._progress.add(**self._per_step)
        self._progress.set(steps=float(state.global_step) - self._first)
        self._after(control)

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        if self._stage.name != "evaluation":
            self._stage.enter("evaluation")

    def on_evaluate(self, _args: Any, _state: Any, control: Any, **__: Any) -> None:
        self._stage.enter("checkpoint" if control.should_save else self._stage.between)

    def on_save(self, *_: Any, **__: Any) -> None:
        self._stage.wait()

    on_predict = on_save

    def on_epoch_end(self, _args: Any, _state: Any, control: Any, **__: Any) -> None:
        self._progress.add(epochs=1)
        self._after(control)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._stage.end()

    def _after(self, control: Any) -> None:
        ahead = "evaluation" if control.should_evaluate else "checkpoint" if control.should_save else "data"
        self._stage.enter(ahead)


def hugging_face(progress: Progress, **per_step: float) -> Any:
    """A callback for transformers' Trainer. `per_step` is counted with each step of this process: `tokens`, ..."""
    base = import_module("transformers").TrainerCallback
    return type("ProgressCallback", (_HuggingFace, base), {})(progress, per_step)


class _Keras:
    """The hooks of Keras' `Callback`."""

    params: Any

    def __init__(self, progress: Progress, per_step: Mapping[str, float]) -> None:
        super().__init__()
        self._progress = progress
        self._per_step = per_step
        self._stage = Stage(progress)
        self._batch = 0
        self._started = False

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self._started = True
        steps, epochs = self.params.get("steps"), self.params.get("epochs")
        if steps and epochs:
            self._progress.total = float(steps * epochs)
            self._progress.done = -self._progress.steps  # of another fit
        self._stage.begin()

    def on_epoch_begin(self, epoch: int, *_: Any, **__: Any) -> None:
        if self._started:  # with `initial_epoch`, it goes on from there
            self._progress.done += float(epoch * (self.params.get("steps") or 0))
        self._started = False

    def on_train_batch_begin(self, batch: int, *_: Any, **__: Any) -> None:
        self._batch = batch
        self._stage.enter("forward_backward")

    def on_train_batch_end(self, batch: int, *_: Any, **__: Any) -> None:
        # Several at once with `steps_per_execution`, of which the last ones may be beyond the epoch's end.
        steps = max(1, min(batch + 1, self.params.get("steps") or batch + 1) - self._batch)
        self._progress.step(steps, **{name: value * steps for name, value in self._per_step.items()})
        self._stage.enter("data")

    def on_test_begin(self, *_: Any, **__: Any) -> None:
        self._stage.enter("evaluation")

    def on_test_end(self, *_: Any, **__: Any) -> None:
        self._stage.wait()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        self._progress.add(epochs=1)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._stage.end()


def keras(progress: Progress, batch_size: float = 0.0, **per_step: float) -> Any:
    """A callback for Keras' `fit`, which does not report the batch size."""
    base = import_module("keras.callbacks").Callback
    counted = {**per_step, "samples": batch_size} if batch_size else per_step
    return type("ProgressCallback", (_Keras, base), {})(progress, counted)


def torch_loop(progress: Progress, model: Any, optimizer: Any, **per_step: float) -> None:
    """Hooks for a plain PyTorch loop: `forward` and `backward` of the model, `optimizer`, and its steps.

    A model wrapped by DistributedDataParallel synchronises in its backward pass. Give it as it is called in the loop.
    """
    stage = Stage(progress)

    def optimize(*_: Any) -> None:
        stage.enter("optimizer")

    def stepped(*_: Any) -> None:
        stage.enter()
        progress.step(**per_step)

    def forward(*_: Any) -> None:
        stage.enter("forward" if model.training else "evaluation")

    def after_forward(*_: Any) -> None:
        stage.enter("backward" if model.training else "")

    model.register_forward_pre_hook(forward)
    model.register_forward_hook(after_forward)
    if hasattr(optimizer, "register_step_pre_hook"):  # PyTorch 2
        optimizer.register_step_pre_hook(optimize)
        optimizer.register_step_post_hook(stepped)
        return
    step = optimizer.step

    @wraps(step)
    def counted(*args: Any, **kwargs: Any) -> Any:
        optimize()
        try:
            return step(*args, **kwargs)
        finally:
            stepped()

    optimizer.step = counted


_COMPILING: list[Phase] = []


def jax_step(progress: Progress, step: F, **per_step: float) -> F:
    """The step of a JAX loop, counted; what JAX compiles meanwhile is the phase `compile`.

    JAX returns before the device is done: the count is ahead by as many steps as are in flight.
    """
    jax = import_module("jax")
    if progress.rank is None:
        progress.rank = jax.process_index()
    compiling = progress.phase("compile")

    def measured(event: str, seconds: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiling.add(seconds)

    if compiling not in _COMPILING:  # of a second step it is the same time
        _COMPILING.append(compiling)
        jax.monitoring.register_event_duration_secs_listener(measured)

    @wraps(step)
    def counted(*args: Any, **kwargs: Any) -> Any:
        result = step(*args, **kwargs)
        progress.step(**per_step)
        return result

    return counted  # type: ignore[return-value]


def ray_train(**options: Any) -> Progress:
    """The progress of a Ray Train worker, with its rank; `options` are those of `Progress`."""
    train = import_module("ray.train")
    return Progress(**{"rank": train.get_context().get_world_rank(), **options})


def ray_report(progress: Progress) -> Callable[..., None]:
    """`ray.train.report`, with the time a checkpoint takes as the phase `checkpoint`."""
    train = import_module("ray.train")
    checkpointing = progress.phase("checkpoint")

    def report(metrics: Mapping[str, Any], *args: Any, checkpoint: Any = None, **kwargs: Any) -> None:
        if checkpoint is None:
            train.report(metrics, *args, **kwargs)
            return
        with checkpointing:
            train.report(metrics, *args, checkpoint=checkpoint, **kwargs)

    return report
