"""Two ranks of a real PyTorch loop (gloo, CPU) in a real Slurm job, each on a simulated node with an exporter."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from tests.attribution_kit.exporter import exporting, owner_of, series, total
from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import TRACKING, SlurmCluster
from tests.fake_nvml.fixture import FakeNvml
from tests.fake_nvml.scenario import GIB, node
from tests.stack import ROOT

PYTHON = ROOT / ".cache/frameworks/bin/python"
STEPS, BATCH = 40, 16
MakeFake = Callable[..., FakeNvml]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[SlurmCluster, Path, Owner]]:
    folder = tmp_path / "loop"
    folder.mkdir()
    for rank in range(2):
        (folder / str(rank)).mkdir()
    with SlurmCluster(TRACKING[-1]) as cluster:
        loop = f"env PYTHONPATH={ROOT}/deploy/progress {PYTHON} {ROOT}/tests/frameworks/loop.py {folder} {STEPS}"
        command = f"srun -n2 {loop}"
        cluster.run("sbatch", "-Q", "-o", f"{folder}/log", "-J", "train", "-n2", "--gres=gpu:2", "--wrap", command)
        until(lambda: all((folder / f"{rank}.pid").exists() for rank in range(2)), 240)
        yield cluster, folder, Owner(f"slurm:{cluster.job('train')}", "slurm")


@contextlib.contextmanager
def exporters(cluster: SlurmCluster, folder: Path, fakes: list[dict[str, str]], run: str) -> Iterator[list[str]]:
    with contextlib.ExitStack() as stack:
        urls: list[str] = []
        for rank, fake in enumerate(fakes):
            logs = folder / f"{run}-{rank}"
            logs.mkdir()
            options: Mapping[str, object] = {
                "attribution.kubernetes": "off",
                "attribution.slurm": "on",
                "attribution.slurm.scontrol": cluster.scontrol,
                "attribution.slurm.mapping-dir": "",
                "progress.socket": folder / f"{rank}/progress.sock",
                "state.dir": "",
            }
            environment = {**fake, "SLURMD_NODENAME": cluster.node}
            urls.append(stack.enter_context(exporting(options, environment, logs)))
        yield urls


def counted(urls: list[str], job: str, name: str = "gpu_workload_samples_total") -> float:
    return sum(each.value for url in urls for each in series(url, name) if each.labels["workload"] == f"slurm:{job}")


def slowest(url: str) -> tuple[str, float] | None:
    return next(
        ((each.labels["rank"], each.value) for each in series(url, "gpu_workload_slowest_rank_step_seconds")), None
    )


def test_loop_is_counted_exactly_over_a_restart_and_the_slow_rank_is_named(
    job: tuple[SlurmCluster, Path, Owner], fake_nvml: MakeFake
) -> None:
    cluster, folder, owner = job
    name = owner.workload.removeprefix("slurm:")
    fakes: list[dict[str, str]] = []
    for rank in range(2):
        pid = (folder / f"{rank}.pid").read_text()
        fake = fake_nvml({**node(1), "gpu0.process.0": f"{pid} C {GIB} 30 5 0 0"})
        scenario = shutil.copy(fake.environment["FAKE_NVML_SCENARIO"], folder / f"scenario{rank}")
        fakes.append({**fake.environment, "FAKE_NVML_SCENARIO": str(scenario)})
    with exporters(cluster, folder, fakes, "first") as urls:
        until(lambda: all(series(url, "gpu_owner_share") for url in urls), 240)
        (folder / "begin").touch()
        until(lambda: counted(urls, name) == STEPS * BATCH, 240)  # both ranks, half of their steps
        until(lambda: all(slowest(url) for url in urls), 60)
        paces = [slowest(url) for url in urls]
    # Nobody listens: the loop goes on and ends.
    (folder / "go").touch()
    until(lambda: all((folder / f"{rank}.count").exists() for rank in range(2)), 240)
    with exporters(cluster, folder, fakes, "second") as urls:
        own = sum(int((folder / f"{rank}.count").read_text()) for rank in range(2))
        until(lambda: counted(urls, name) == own, 240)
        steps = [total(url, "gpu_workload_steps_total", found) for url in urls for found in _owners(url, name)]
        (folder / "stop").touch()

    assert own == 2 * STEPS * BATCH
    assert steps == [STEPS, STEPS]
    (first, quick), (second, slow) = (each for each in paces if each)
    assert (first, second) == ("0", "1")
    assert slow > 0.2 > quick


def _owners(url: str, job: str) -> list[Owner]:
    return [owner_of(each) for each in series(url, "gpu_workload_gpus") if each.labels["slurm_job"] == job]
