"""The exporter as a process, on a driver library that shows real programs on its GPUs: each is diagnosed right."""

from __future__ import annotations

import contextlib
import os
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

SETTLED = 12.0
"""Seconds until it is known what a process reads, and that one never runs a kernel."""
SECONDS = 10.0
"""Of GPU time to judge by."""

SPINS: Mapping[str, Value] = {
    "utilization": 100, "memory_utilization": 0, "power_mw": 180_000, "gpm.1": 100, "gpm.2": 12, "gpm.3": 2, "gpm.5": 0,
    "gpm.10": 1, "gpm.11": 0, "gpm.12": 0, "gpm.13": 0,
}  # fmt: skip
DENSE: Mapping[str, Value] = {"utilization": 100, "gpm.1": 100, "gpm.2": 92, "gpm.5": 61, "gpm.10": 30}

CAUSES: tuple[tuple[str, Mapping[str, Value], str], ...] = (
    # what runs on GPU 0, 1, …    what the driver says of it       the state that must win
    ("burn",                      {"utilization": 30},             "wait_cpu"),
    ("read slowly",               {"utilization": 20},             "wait_storage"),
    ("blocked",                   {"utilization": 0},              "wait_storage"),
    ("asleep, never ran",         {"utilization": 0},              "held_unused"),
    ("asleep between kernels",    {"utilization": 20},             "wait_other"),
    ("rank of a pair, computes",  DENSE,                           "busy"),
    ("rank of a pair, waits",     {"utilization": 5},              "wait_peer"),
    ("rank of a pair, unused",    {"utilization": 0},              "held_unused"),
    ("idle server that polls",    {"utilization": 0},              "wait_requests"),
    ("write slowly",              {"utilization": 20},             "wait_checkpoint"),
    ("rank that spins",           SPINS,                           "wait_collective"),
    ("rank that receives",        {"utilization": 0},              "wait_network"),
    ("fp32",                      {**DENSE, "gpm.2": 95, "gpm.5": 0, "gpm.12": 60}, "no_tensor_cores"),
    ("flagged as hot",            {**DENSE, "event_ns.sw_thermal": "rate 950000000", "clock.1": 1950}, "busy"),
    ("nothing",                   {"utilization": 0},              "free"),
)  # fmt: skip


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[tuple[int, ...]]:
    """The pids that run on GPU 0, 1, …: each owner in a cgroup of its own."""
    with contextlib.ExitStack() as stack:

        def own(name: str) -> Cgroup:
            return stack.enter_context(cgroup(name))

        def start(*arguments: str, within: Cgroup) -> int:
            return stack.enter_context(running(*arguments, within=within))

        slow, slow_write, pair, stuck, ranks = (own(each) for each in ("slow", "write", "pair", "stuck", "ranks"))
        slow.slow_disk_of(folder, 2 << 20)
        slow_write.slow_disk_of(folder, 8 << 20, writes=True)
        blocked = start("blocked", within=stuck)
        wait_until_blocked(blocked)
        silent = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        yield (
            start("burn", within=own("burn")),
            start("read", str(data_on_disk(folder)), within=slow),
            blocked,
            start("sleep", within=own("asleep")),
            start("sleep", within=own("pauses")),
            start("burn", within=pair),
            start("follow", within=pair),
            start("sleep", within=pair),
            start("serve", str(_port_of_a_service()), within=own("server")),
            start("write", str(folder / "checkpoint"), within=slow_write),
            start("burn", within=ranks),
            start("receive", str(silent.getsockname()[1]), within=ranks),
            start("sleep", within=own("fp32")),
            start("sleep", within=own("hot")),
        )


def _port_of_a_service() -> int:
    """A free one below those that the kernel gives to anybody."""
    for port in range(20000 + os.getpid() % 1000, 30000):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    pytest.fail("no free port")


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
        if not first and total > SETTLED:
            first = now
        if first and total > SETTLED + SECONDS:
            return {
                gpu: {state: value - first[gpu][state] for state, value in states.items()}
                for gpu, states in now.items()
            }
        time.sleep(0.3)
    pytest.fail(f"no {SECONDS} s were booked in time: {now}")


def test_real_programs_on_gpus_are_diagnosed(fake_nvml: Callable[..., FakeNvml], tmp_path: Path) -> None:
    with programs(tmp_path) as pids:
        on_gpus: dict[str, Value] = {f"gpu{gpu}.process.0": f"{pid} C 1073741824" for gpu, pid in enumerate(pids)}
        told = {f"gpu{gpu}.{key}": value for gpu, (_, each, _) in enumerate(CAUSES) for key, value in each.items()}
        fake = fake_nvml({**node(len(CAUSES)), **on_gpus, **told})
        with exporter(fake) as url:
            found = settled(url)
            text = requests.get(url, timeout=5).text

    states = {gpu: (name, state) for gpu, (name, _, state) in enumerate(CAUSES)}
    shares = {name: found[str(gpu)][state] / lost(found[str(gpu)], state) for gpu, (name, state) in states.items()}
    assert {name: share for name, share in shares.items() if share < 0.8} == {}, found
    assert found["13"]["throttled_thermal"] == pytest.approx(SECONDS * (1 - 1950 / 1980), rel=0.5)
    straggling = {
        sample.labels["gpu"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "gpu_workload_straggler_seconds_total"
        and sample.labels["workload"].endswith("-ranks.service")
    }
    assert straggling["10"] == 0
    assert straggling["11"] > SECONDS * 0.8


def lost(states: Mapping[str, float], wanted: str) -> float:
    """What was not busy; all of it where being busy is what is wanted."""
    return sum(states.values()) - (0.0 if wanted == "busy" else states["busy"])
