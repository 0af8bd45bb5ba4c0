"""The exporter as a process, on a driver library that shows real programs on its GPUs: each is diagnosed right."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.causes import Cgroup, cgroup, data_on_disk, running, wait_until_blocked
from tests.fake_nvml.fixture import FakeNvml
from tests.fake_nvml.scenario import Value, node

SECONDS = 10.0
"""Of GPU time to judge by."""

CAUSES = (
    # GPU  busy %  the state that must win
    (0,     30,    "wait_cpu"),
    (1,     20,    "wait_storage"),
    (2,      0,    "wait_storage"),
    (3,      0,    "wait_other"),
    (4,    100,    "busy"),
    (5,      0,    "wait_peer"),
    (6,      0,    "free"),
)  # fmt: skip


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[tuple[int, ...]]:
    """The pids that run on GPU 0, 1, …: each owner in a cgroup of its own, 4 and 5 are one owner's."""
    with contextlib.ExitStack() as stack:

        def own(name: str) -> Cgroup:
            return stack.enter_context(cgroup(name))

        def start(*arguments: str, within: Cgroup) -> int:
            return stack.enter_context(running(*arguments, within=within))

        slow, pair, stuck = own("slow"), own("pair"), own("stuck")
        slow.slow_disk_of(folder, 2 << 20)
        burning = start("burn", within=own("burn"))
        reading = start("read", str(data_on_disk(folder)), within=slow)
        blocked = start("blocked", within=stuck)
        wait_until_blocked(blocked)
        asleep = start("sleep", within=own("asleep"))
        yield burning, reading, blocked, asleep, start("burn", within=pair), start("follow", within=pair)


@contextlib.contextmanager
def exporter(fake: FakeNvml) -> Iterator[str]:
    """The address of a running exporter's metrics."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    process = subprocess.Popen(
        [sys.executable, "-m", "exporter", f"--web.listen-address={address}", "--attribution.kubernetes=off",
         "--attribution.slurm=off"],
        env=fake.environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield f"http://{address}/metrics"
    finally:
        process.terminate()
        _, log = process.communicate(timeout=20)
    assert "Traceback" not in log, log


def seconds_by_state(url: str) -> Mapping[str, Mapping[str, float]]:
    """By GPU index; empty while the exporter is not ready."""
    try:
        text = requests.get(url, timeout=5).text
    except requests.ConnectionError:
        return {}
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "gpu_time_seconds_total":
                found.setdefault(sample.labels["gpu"], {})[sample.labels["state"]] = sample.value
    return found


def settled(url: str) -> Mapping[str, Mapping[str, float]]:
    """Seconds by state of each GPU, over `SECONDS` after the first passes."""
    deadline = time.monotonic() + 90
    first: Mapping[str, Mapping[str, float]] = {}
    while time.monotonic() < deadline:
        now = seconds_by_state(url)
        total = min((sum(states.values()) for states in now.values()), default=0.0)
        if not first and total > 2:
            first = now
        if first and total > 2 + SECONDS:
            return {
                gpu: {state: value - first[gpu][state] for state, value in states.items()}
                for gpu, states in now.items()
            }
        time.sleep(0.3)
    pytest.fail(f"no {SECONDS} s were booked in time: {now}")


def test_real_programs_on_gpus_are_diagnosed(fake_nvml: Callable[..., FakeNvml], tmp_path: Path) -> None:
    with programs(tmp_path) as pids:
        on_gpus: dict[str, Value] = {f"gpu{gpu}.process.0": f"{pid} C 1073741824" for gpu, pid in enumerate(pids)}
        busy: dict[str, Value] = {f"gpu{gpu}.utilization": percent for gpu, percent, _ in CAUSES}
        dense: dict[str, Value] = {"gpu4.gpm.2": 92, "gpu4.gpm.5": 61, "gpu4.gpm.10": 30}
        fake = fake_nvml({**node(len(CAUSES)), **on_gpus, **busy, **dense})
        with exporter(fake) as url:
            found = settled(url)

    shares = {gpu: found[str(gpu)][state] / lost(found[str(gpu)], state) for gpu, _, state in CAUSES}
    assert {gpu: share for gpu, share in shares.items() if share < 0.8} == {}, found


def lost(states: Mapping[str, float], wanted: str) -> float:
    """What was not busy; all of it where being busy is what is wanted."""
    return sum(states.values()) - (0.0 if wanted == "busy" else states["busy"])
