"""The callbacks in the frameworks themselves: `make frameworks` installs them (6 GB) and runs this."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy/progress"))
os.environ["KERAS_BACKEND"] = "jax"

import gpu_progress_callbacks as callbacks
from gpu_progress import Progress

CLIENT = str(Path(callbacks.__file__).parent)
SAMPLES, BATCH = 96, 8


def said(progress: Progress) -> tuple[dict[str, Any], set[str]]:
    report = progress.report()
    return report, {name for name, seconds in report["phases"].items() if seconds > 0}


def data(torch: Any) -> Any:
    return torch.utils.data.TensorDataset(torch.randn(SAMPLES, 4), torch.randn(SAMPLES, 1))


@pytest.fixture
def progress() -> Progress:
    return Progress("/nowhere/progress.sock", interval=0.0)


def test_pytorch_loop(progress: Progress) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    callbacks.torch_loop(progress, model, optimizer, samples=BATCH)
    loader = progress.data(torch.utils.data.DataLoader(data(torch), batch_size=BATCH, num_workers=2))
    for inputs, wanted in loader:
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimizer.step()
    model.eval()
    model(torch.randn(2, 4))
    report, phases = said(progress)

    assert len(loader) == SAMPLES // BATCH
    assert (report["steps"], report["samples"]) == (SAMPLES // BATCH, SAMPLES)
    assert phases == {"data", "forward", "backward", "optimizer", "evaluation"}


def test_lightning(progress: Progress, tmp_path: Path) -> None:
    torch, pl = pytest.importorskip("torch"), pytest.importorskip("lightning.pytorch")

    class Model(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def _loss(self, batch: Any) -> Any:
            return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

        def training_step(self, batch: Any, _: int) -> Any:
            return self._loss(batch)

        def validation_step(self, batch: Any, _: int) -> Any:
            return self._loss(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    loader = torch.utils.data.DataLoader(data(torch), batch_size=BATCH)
    trainer = pl.Trainer(
        max_epochs=2, accumulate_grad_batches=2, callbacks=[callbacks.lightning(progress)], accelerator="cpu",
        logger=False, enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(Model(), loader, loader)
    report, phases = said(progress)

    assert (report["steps"], report["samples"], report["epochs"]) == (SAMPLES // BATCH, 2 * SAMPLES, 2)
    assert (report["total"], report["progress"]) == (SAMPLES // BATCH, 1.0)
    assert phases == {"data", "forward", "backward", "optimizer", "evaluation", "checkpoint"}


def test_hugging_face(progress: Progress, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = transformers.GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=1)
    rows = [{"input_ids": torch.arange(8) % 32, "labels": torch.arange(8) % 32} for _ in range(SAMPLES)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=BATCH, gradient_accumulation_steps=2, num_train_epochs=2,
        eval_strategy="epoch", save_strategy="epoch", report_to=[], use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=rows, eval_dataset=rows[:16],
        callbacks=[callbacks.hugging_face(progress, tokens=2 * BATCH * 8)],
    )  # fmt: skip
    trainer.train()
    report, phases = said(progress)

    assert (report["steps"], report["samples"], report["epochs"]) == (SAMPLES // BATCH, 2 * SAMPLES, 2)
    assert (report["tokens"], report["progress"]) == (2 * SAMPLES * 8, 1.0)
    assert phases == {"data", "forward_backward", "optimizer", "evaluation", "checkpoint"}


def test_keras(progress: Progress) -> None:
    keras, numpy = pytest.importorskip("keras"), pytest.importorskip("numpy")
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    inputs, wanted = numpy.ones((SAMPLES, 4)), numpy.ones((SAMPLES, 1))
    callback = callbacks.keras(progress, batch_size=BATCH)
    model.fit(
        inputs, wanted, batch_size=BATCH, epochs=2, validation_data=(inputs, wanted), callbacks=[callback], verbose=0
    )
    report, phases = said(progress)

    assert (report["steps"], report["samples"], report["epochs"]) == (2 * SAMPLES // BATCH, 2 * SAMPLES, 2)
    assert (report["total"], report["progress"]) == (2 * SAMPLES // BATCH, 1.0)
    assert phases == {"data", "forward_backward", "evaluation"}


def test_jax(progress: Progress) -> None:
    jax = pytest.importorskip("jax")
    step = callbacks.jax_step(progress, jax.jit(lambda x: x * 2 + 1), samples=BATCH)
    value = jax.numpy.ones(3)
    for _ in range(5):
        value = step(value)
    report, phases = said(progress)

    assert (report["steps"], report["samples"], report["rank"]) == (5, 5 * BATCH, 0)
    assert phases == {"compile"}


def test_ray_train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: PLR0915 - a worker is in it
    monkeypatch.setenv("HOME", str(tmp_path))  # where it writes the token of its local cluster
    ray = pytest.importorskip("ray")
    from ray.train import RunConfig, ScalingConfig  # noqa: PLC0415
    from ray.train.torch import TorchTrainer  # noqa: PLC0415

    def worker(config: dict[str, Any]) -> None:
        sys.path.insert(0, config["path"])
        import gpu_progress_callbacks as client  # noqa: PLC0415
        import ray.train  # noqa: PLC0415

        progress = client.ray_train(path="/nowhere/progress.sock", interval=0.0)
        report = client.ray_report(progress)
        for _ in range(3):
            progress.step(samples=4)
        checkpoint = ray.train.Checkpoint.from_directory(config["checkpoint"])
        told = progress.report()
        report({"rank": told["rank"], "steps": told["steps"]})
        report({"rank": told["rank"], "steps": told["steps"]}, checkpoint=checkpoint)
        if progress.phase("checkpoint").seconds <= 0:
            raise RuntimeError("the checkpoint took no time")

    (tmp_path / "state").mkdir()
    (tmp_path / "state/weights").write_text("1")
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    try:
        config = {"path": CLIENT, "checkpoint": str(tmp_path / "state")}
        result = TorchTrainer(
            worker, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(storage_path=str(tmp_path / "runs")),
        ).fit()  # fmt: skip
    finally:
        ray.shutdown()

    assert (result.metrics["rank"], result.metrics["steps"]) == (0, 3)
