"""Simulated workloads of every kind, read by the real collectors and settled by the real accounts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import pytest

from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import LastAnswers, read_gpu
from exporter.tools.simulator import simulate
from exporter.tools.simulator.driver import SimulatedHost

START, CYCLES = 1_700_000_000.0, 120

pytestmark = pytest.mark.xdist_group("simulated causes")
"""One worker, for the simulations are run once for all tests here."""

CAUSES = {
    "input-bound": "wait_cpu",
    "cpu-bound": "wait_cpu",
    "storage-bound": "wait_storage",
    "straggler": "wait_peer",
    "tiny-kernels": "low_sm_activity",
    "inference": "wait_requests",
    "idle-server": "wait_requests",
    "notebook": "wait_user",
    "checkpoint": "wait_checkpoint",
    "download": "wait_network",
    "hung-collective": "wait_collective",
    "one-of-many": "allocated_unused",
    "network-rank": "wait_collective",
    "allocated-idle": "allocated_idle",
    "idle-loaded": "allocated_unused",
    "thermal": "throttled_thermal",
    "power-brake": "throttled_power_brake",
}
"""Told apart on every device."""
CAUSES_BY_GPM = {
    "communication-bound": "communication",
    "memory-bound": "memory_bound",
    "no-tensor-cores": "tensor_cores_unused",
    "full-memory": "low_sm_activity",
}
PAIRS = {"straggler", "hung-collective", "one-of-many", "network-rank"}
"""On two GPUs; the second is looked at."""


def states(spec: str) -> Mapping[str, Mapping[str, float]]:
    """Seconds by state of each GPU after `PASSES`, in GPU order, named by index as text."""
    clock = [START]
    driver = simulate(spec, lambda: clock[0])
    driver.open()
    node, accounts = SimulatedHost(driver.node), Accounting(AccountingOptions(), ())
    gpus = [Gpu(device) for device in driver.devices()]
    memories: list[LastAnswers] = [{} for _ in gpus]
    settled: Mapping[str, Mapping[str, float]] = {}
    for second in range(CYCLES + 1):
        clock[0] = START + second
        found = [
            read_gpu(gpu.device, gpu.states, COLLECTORS, clock[0], float(second), memory)
            for gpu, memory in zip(gpus, memories, strict=True)
        ]
        gpus = [
            Gpu(read.device, read.states, answered=float(second), reading=read.answered and not read.device_error)
            for read in found
        ]
        settled = accounts.update(gpus, node, Moment(clock[0], float(second))).states
    return {str(gpu.device.index): settled[gpu.device.uuid] for gpu in gpus}


def of_patterns(model: str, patterns: tuple[str, ...]) -> Mapping[str, Mapping[str, float]]:
    """Each pattern on a GPU of one node, some on two: its seconds by state, of its last GPU."""
    counts = [2 if pattern in PAIRS else 1 for pattern in patterns]
    names = ",".join(f"{count}*{pattern}" for count, pattern in zip(counts, patterns, strict=True))
    found = states(f"{sum(counts)}x{model}:{names};seed=3")
    return {pattern: found[str(last - 1)] for last, pattern in zip(accumulate(counts), patterns, strict=True)}


@pytest.fixture(scope="module")
def hopper() -> Mapping[str, Mapping[str, float]]:
    return of_patterns("H200", (*CAUSES, *CAUSES_BY_GPM, "training", "power-capped", "warm", "free"))


@pytest.fixture(scope="module")
def ampere() -> Mapping[str, Mapping[str, float]]:
    return of_patterns("A100", (*CAUSES, *CAUSES_BY_GPM, "training"))


def share_of_lost(seconds: Mapping[str, float], state: str) -> float:
    lost = sum(seconds.values()) - seconds["computing"] - seconds["free"] - seconds["possible_spin"]
    assert lost > 0
    return seconds[state] / lost


@pytest.mark.parametrize(("pattern", "state"), (CAUSES | CAUSES_BY_GPM).items())
def test_cause_wins_with_gpm(hopper: Mapping[str, Mapping[str, float]], pattern: str, state: str) -> None:
    assert share_of_lost(hopper[pattern], state) >= 0.8, hopper[pattern]


@pytest.mark.parametrize(("pattern", "state"), CAUSES.items())
def test_cause_wins_without_gpm(ampere: Mapping[str, Mapping[str, float]], pattern: str, state: str) -> None:
    assert share_of_lost(ampere[pattern], state) >= 0.8, ampere[pattern]


def test_what_cannot_be_told_without_gpm_is_busy(ampere: Mapping[str, Mapping[str, float]]) -> None:
    assert ampere["memory-bound"]["memory_bound"] == 0.0
    assert ampere["memory-bound"]["computing"] >= 0.9 * CYCLES


@pytest.mark.parametrize("pattern", ["training", "power-capped"])
def test_healthy_training_is_busy(hopper: Mapping[str, Mapping[str, float]], pattern: str) -> None:
    assert hopper[pattern]["computing"] >= 0.9 * CYCLES, hopper[pattern]


def test_throttling_takes_what_the_clocks_lost(hopper: Mapping[str, Mapping[str, float]]) -> None:
    """Flagged for 95 % of the time, clocks 2 % down."""
    assert 0.005 * CYCLES < hopper["warm"]["throttled_thermal"] < 0.03 * CYCLES


def test_free_gpus_are_free(hopper: Mapping[str, Mapping[str, float]]) -> None:
    assert hopper["free"]["free"] == pytest.approx(CYCLES)


def test_every_gpu_balances(hopper: Mapping[str, Mapping[str, float]]) -> None:
    assert [sum(seconds.values()) for seconds in hopper.values()] == pytest.approx([CYCLES] * len(hopper))
