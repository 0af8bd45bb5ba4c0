"""Two ranks of a real PyTorch loop (gloo, CPU), each on a simulated node with an exporter that a Prometheus scrapes.

In a real Slurm job, and in cgroups as Docker makes them. The exporters are killed in the middle of the loop.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
import yaml

from tests.attribution_kit.exporter import series
from tests.attribution_kit.nodes import until
from tests.attribution_kit.slurm_cluster import TRACKING, SlurmCluster
from tests.fake_nvml.fixture import FakeNvml
from tests.fake_nvml.scenario import GIB, node
from tests.stack import ROOT, free_port, prometheus

PYTHON = ROOT / ".cache/frameworks/bin/python"
LOOP = f"env PYTHONPATH={ROOT}/deploy/progress {PYTHON} {ROOT}/tests/frameworks/loop.py"
STEPS, BATCH, RANKS = 40, 16, (0, 1)
CGROUPS = Path("/sys/fs/cgroup")
CONTAINERS = tuple(str(rank) * 64 for rank in RANKS)
MakeFake = Callable[..., FakeNvml]


@dataclass(frozen=True)
class Job:
    """The loop, and what an exporter needs to know whose it is."""

    folder: Path
    workloads: tuple[str, ...]
    options: Mapping[str, object]
    environment: Mapping[str, str]

    def rank(self, number: int) -> Path:
        return self.folder / str(number)

    def written(self, name: str) -> bool:
        return all((self.folder / f"{rank}.{name}").exists() for rank in RANKS)


@contextlib.contextmanager
def in_slurm(folder: Path) -> Iterator[Job]:
    with SlurmCluster(TRACKING[-1]) as cluster:
        command = f"srun -n2 {LOOP} {folder} {STEPS}"
        cluster.run("sbatch", "-Q", "-o", f"{folder}/log", "-J", "train", "-n2", "--gres=gpu:2", "--wrap", command)
        until(lambda: all((folder / f"{rank}.pid").exists() for rank in RANKS), 400)
        options = {
            "attribution.slurm": "on",
            "slurm.scontrol": cluster.scontrol,
            "attribution.slurm.mapping-dir": "",
        }
        workload = f"slurm:{cluster.job('train')}"
        yield Job(folder, (workload,), options, {"SLURMD_NODENAME": cluster.node})


@contextlib.contextmanager
def in_containers(folder: Path) -> Iterator[Job]:
    """Each rank in cgroups of the paths that Docker gives a container, in every hierarchy that is mounted."""
    roots = [CGROUPS] if (CGROUPS / "cgroup.procs").exists() else sorted(CGROUPS.glob("*/"))
    with contextlib.ExitStack() as stack:
        for rank, container in enumerate(CONTAINERS):
            made = [place for root in roots if (place := _cgroup(root, f"docker/{container}"))]
            enter = "; ".join(f"echo $$ > {place}/cgroup.procs" for place in made)
            environment = {**os.environ, "SLURM_PROCID": str(rank)}
            process = stack.enter_context(
                subprocess.Popen(["sh", "-c", f"{enter}; exec {LOOP} {folder} {STEPS}"], env=environment)
            )
            stack.callback(_emptied, process, made)
        until(lambda: all((folder / f"{rank}.pid").exists() for rank in RANKS), 400)
        yield Job(folder, tuple(f"docker:{each[:12]}" for each in CONTAINERS), {"attribution.slurm": "off"}, {})


def _cgroup(root: Path, path: str) -> Path | None:
    """None in a hierarchy that takes no process before it is configured."""
    place = root / path
    if not (root / "cgroup.procs").exists() or root.name == "cpuset":
        return None
    place.mkdir(parents=True, exist_ok=True)
    return place


def _emptied(process: subprocess.Popen[bytes], made: list[Path]) -> None:
    process.kill()
    process.wait()
    for place in made:
        until(lambda place=place: not (place / "cgroup.procs").read_text())  # type: ignore[misc]
        place.rmdir()


@contextlib.contextmanager
def exporters(job: Job, ports: list[int], fakes: list[dict[str, str]], run: str) -> Iterator[list[str]]:
    """Ended by SIGKILL: no last word, no clean-up."""
    running: list[subprocess.Popen[bytes]] = []
    try:
        for rank, (port, fake) in enumerate(zip(ports, fakes, strict=True)):
            options = {
                "web.listen-address": f"127.0.0.1:{port}",
                "sample.interval": "300ms",
                "attribution.kubernetes": "off",
                "progress.socket": job.rank(rank) / "progress.sock",
                "state.dir": "",
                **job.options,
            }
            command = [sys.executable, "-m", "exporter", *(f"--{name}={value}" for name, value in options.items())]
            with (job.folder / f"{run}-{rank}.log").open("wb") as log:
                running.append(subprocess.Popen(command, env={**fake, **job.environment}, stdout=log, stderr=log))
        yield [f"http://127.0.0.1:{port}/metrics" for port in ports]
    finally:
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.wait()


def counted(urls: list[str], job: Job, name: str = "gpu_workload_samples_total") -> float:
    return sum(each.value for url in urls for each in series(url, name) if each.labels["workload"] in job.workloads)


@contextlib.contextmanager
def scraping(ports: list[int], folder: Path) -> Iterator[str]:
    """A Prometheus with the rules of progress, evaluated each second."""
    groups = yaml.safe_load((ROOT / "deploy/prometheus/rules/gpu-recording.yaml").read_text())["groups"]
    progress = [{**group, "interval": "1s"} for group in groups if group["name"] == "gpu-progress"]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": progress}))
    targets = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    scrapes = [{"job_name": "gpu-exporter", "scrape_interval": "1s", "static_configs": targets}]
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"rule_files": [str(folder / "rules.yaml")], "scrape_configs": scrapes}))
    with prometheus(config, folder) as url:
        yield url


def ask(url: str, query: str) -> list[tuple[dict[str, str], float]]:
    answer = requests.get(f"{url}/api/v1/query", params={"query": query}, timeout=30).json()
    return [(row["metric"], float(row["value"][1])) for row in answer["data"]["result"]]


def total(url: str, job: Job, counter: str = "samples") -> float:
    """Over both nodes, as Prometheus has it."""
    workloads = "|".join(job.workloads)
    found = ask(url, f'sum(last_over_time(gpu_workload_{counter}_total{{workload=~"{workloads}"}}[1h]))')
    return found[0][1] if found else 0.0


def slow(url: str) -> set[tuple[str, str]]:
    return {(row["instance"], row["rank"]) for row, _ in ask(url, SLOWEST)}


SLOWEST = "topk(1, workload:gpu_workload_slowest_rank_step_seconds:max)"


@pytest.mark.parametrize("place", [in_slurm, in_containers], ids=["slurm", "containers"])
def test_loop_is_counted_exactly_though_its_exporters_are_killed(
    place: Callable[[Path], contextlib.AbstractContextManager[Job]], tmp_path: Path, fake_nvml: MakeFake
) -> None:
    folder = tmp_path / "loop"
    folder.mkdir()
    for rank in RANKS:
        (folder / str(rank)).mkdir()
    ports = [free_port() for _ in RANKS]
    with place(folder) as job, scraping(ports, folder) as url:
        fakes = [_fake(job, rank, fake_nvml) for rank in RANKS]
        with exporters(job, ports, fakes, "first") as urls:
            until(lambda: all(series(each, "gpu_allocation_ratio") for each in urls), 400)
            (folder / "begin").touch()
            until(lambda: total(url, job) == STEPS * BATCH, 400)  # both ranks, half of their steps
            until(lambda: slow(url) == {(f"127.0.0.1:{ports[1]}", "1")}, 400)
            (folder / "go").touch()
        # Killed while the loop steps. Nobody listens, and it goes on.
        until(lambda: job.written("late"), 400)
        with exporters(job, ports, fakes, "second") as urls:
            until(lambda: counted(urls, job) == 1.5 * STEPS * BATCH, 400)
            (folder / "finish").touch()
            until(lambda: job.written("count"), 400)
            own = sum(int((folder / f"{rank}.count").read_text()) for rank in RANKS)
            until(lambda: total(url, job) == own, 400)
            steps = counted(urls, job, "gpu_workload_steps_total")
            (folder / "stop").touch()

    assert own == 2 * STEPS * BATCH
    assert steps == 2 * STEPS  # each node tells the steps that all take together


def _fake(job: Job, rank: int, fake_nvml: MakeFake) -> dict[str, str]:
    pid = (job.folder / f"{rank}.pid").read_text()
    fake = fake_nvml({**node(1), "gpu0.process.0": f"{pid} C {GIB} 30 5 0 0"})
    scenario = shutil.copy(fake.environment["FAKE_NVML_SCENARIO"], job.folder / f"scenario{rank}")
    return {**fake.environment, "FAKE_NVML_SCENARIO": str(scenario)}
