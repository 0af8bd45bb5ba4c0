"""Each cause of lost GPU time, as its signature with noise over minutes of cycles: the intended state must win.

The figures are those of the rule table: NVIDIA's guidance for SM activity (under 0.5 is ineffective use), DRAM near
its peak only in memory-bound kernels, PSI and thread CPU as the kernel defines them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import fields, replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.host.model import HostSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES, diagnosable_splits
from exporter.ledger.states.state import Signals

OWNER = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
GPUS = tuple(Target(f"GPU-{index}", index, f"0000:0{index}:00.0") for index in range(4))
CYCLES = 300
RATES = ("read_bytes_per_second", "written_bytes_per_second", "network_bytes_per_second")

HOPPER = Signals(
    busy=1.0,
    sm_active=0.9,
    tensor_active=0.6,
    dram_active=0.35,
    memory_activity=0.5,
    link_activity=0.02,
    power_of_limit=0.95,
    vector_active=0.1,
    throttled_thermal=0.0,
    throttled_power_brake=0.0,
    sm_clock=1.0,
    sm_clock_max=1.0,
)
"""Dense bf16 work on a device with GPM."""
AMPERE = replace(HOPPER, sm_active=None, tensor_active=None, dram_active=None, vector_active=None)
CALM = HostSignals(
    cpu_pressure=0.01,
    io_pressure=0.0,
    cpu_of_limit=0.15,
    hottest_thread=0.4,
    blocked_threads=0.0,
)

_STEADY = frozenset(
    {"processes", "programs", "launchers", "connected", "serves", "polling", "sm_clock", "sm_clock_max", *RATES}
)

Moment = tuple[Signals, HostSignals]


def idle(busy: float, of: Signals = HOPPER) -> Signals:
    """The same work with the GPU waiting for the rest of the cycle: activities fall with the busy share."""
    scaled = ("sm_active", "tensor_active", "dram_active", "vector_active", "memory_activity", "link_activity")
    parts = {name: getattr(of, name) * busy for name in scaled if getattr(of, name) is not None}
    return replace(of, busy=busy, power_of_limit=0.15 + 0.8 * busy, **parts)


def noisy(moment: Moment, chance: random.Random) -> Moment:
    def shake(record: Signals | HostSignals) -> dict[str, float]:
        numbers = {item.name: getattr(record, item.name) for item in fields(record) if item.name not in _STEADY}
        return {
            name: min(1.0, max(0.0, chance.gauss(number, 0.04 * number)))
            for name, number in numbers.items()
            if number is not None
        }

    return replace(moment[0], **shake(moment[0])), replace(moment[1], **shake(moment[1]))


def run(moments: Iterable[tuple[Moment, ...]]) -> dict[str, float]:
    """The owner's seconds by state after cycles of one moment per GPU; the host's is that of the first."""
    chance = random.Random(4)  # noqa: S311 - noise, the same in each run
    ledger = Ledger()
    for gpus in moments:
        shaken = [noisy(moment, chance) for moment in gpus]
        readings = tuple(
            Reading(target, signals, (Allocation(OWNER, 1.0, (target.index + 100,)),))
            for target, (signals, _) in zip(GPUS, shaken, strict=False)
        )
        ledger = advance_ledger(
            ledger, LedgerInput(time=0.0, seconds=1.0, readings=readings, hosts={OWNER: shaken[0][1]})
        )
    return dict(zip(STATES, ledger.owners[OWNER].seconds, strict=True))


def unobserved(seconds: dict[str, float]) -> float:
    return sum(seconds.values()) - seconds["computing"] - seconds["free"]


SIGNATURES: tuple[tuple[str, str, Signals, HostSignals], ...] = (
    ("slow disk, PSI", "wait_storage", idle(0.5), replace(CALM, io_pressure=0.5)),
    ("slow disk, one reader", "wait_storage", idle(0.1), replace(CALM, io_pressure=0.85, hottest_thread=0.2)),
    ("network storage, D state", "wait_storage", idle(0.2), replace(CALM, io_pressure=None, blocked_threads=1.0)),
    ("one loader thread", "wait_cpu", idle(0.6), replace(CALM, hottest_thread=1.0)),
    ("at the CPU quota", "wait_cpu", idle(0.4), replace(CALM, cpu_of_limit=1.0, hottest_thread=0.6)),
    ("too few CPUs", "wait_cpu", idle(0.6), replace(CALM, cpu_pressure=0.5, hottest_thread=0.6)),
    ("a lock", "wait_other", idle(0.3), replace(CALM, hottest_thread=0.02, cpu_of_limit=0.0)),
    ("process that never runs a kernel", "allocated_unused", idle(0.0), replace(CALM, hottest_thread=0.02)),
    ("poller that never runs a kernel", "allocated_unused", idle(0.0), replace(CALM, hottest_thread=1.0, polling=True)),
    (
        "checkpoint to a slow disk",
        "wait_checkpoint",
        idle(0.4),
        replace(CALM, io_pressure=0.6, written_bytes_per_second=9e7, read_bytes_per_second=1e5),
    ),
    (
        "checkpoint into the page cache",
        "wait_checkpoint",
        idle(0.2),
        replace(CALM, hottest_thread=1.0, written_bytes_per_second=2e9, read_bytes_per_second=1e5),
    ),
    ("object store", "wait_network", idle(0.3), replace(CALM, network_bytes_per_second=2e8)),
    ("slow peer over TCP", "wait_network", idle(0.2), replace(CALM, receiving_threads=1.0)),
    ("hot GPU", "throttled_thermal", replace(HOPPER, throttled_thermal=0.95, sm_clock=0.3), CALM),
    ("power brake", "throttled_power_brake", replace(HOPPER, throttled_power_brake=0.95, sm_clock=0.3), CALM),
    (
        "fp32 training",
        "tensor_cores_unused",
        replace(HOPPER, sm_active=0.95, tensor_active=0.0, vector_active=0.6, dram_active=0.3),
        CALM,
    ),
    (
        "all-reduce",
        "communication",
        replace(HOPPER, sm_active=0.2, tensor_active=0.05, dram_active=0.2, link_activity=0.7),
        CALM,
    ),
    ("streaming copy", "memory_bound", replace(HOPPER, tensor_active=0.0, dram_active=0.9), CALM),
    ("decode with batch 1", "memory_bound", replace(HOPPER, tensor_active=0.08, dram_active=0.7), CALM),
    (
        "tiny kernels",
        "low_sm_activity",
        replace(HOPPER, sm_active=0.08, tensor_active=0.0, dram_active=0.02, power_of_limit=0.2),
        replace(CALM, hottest_thread=1.0),
    ),
    (
        "tiny kernels without GPM",
        "low_sm_activity",
        replace(AMPERE, power_of_limit=0.25, memory_activity=0.03),
        replace(CALM, hottest_thread=1.0),
    ),
    (
        "PCIe copies without GPM",
        "communication",
        replace(AMPERE, power_of_limit=0.25, link_activity=0.8, memory_activity=0.2),
        CALM,
    ),
    ("slow disk without GPM", "wait_storage", idle(0.5, AMPERE), replace(CALM, io_pressure=0.5)),
)


@pytest.mark.parametrize(
    ("state", "signals", "host"), [row[1:] for row in SIGNATURES], ids=[row[0] for row in SIGNATURES]
)
def test_intended_state_takes_most_of_the_lost_time(state: str, signals: Signals, host: HostSignals) -> None:
    seconds = run([((signals, host),)] * CYCLES)

    assert unobserved(seconds) > 0
    assert seconds[state] >= 0.8 * unobserved(seconds)


def test_every_state_that_is_decided_has_a_signature() -> None:
    here = {row[1] for row in SIGNATURES} | {"wait_peer", "computing"}
    of_the_owner = {
        "wait_collective",
        "possible_spin",
        "wait_requests",
        "wait_user",
    }  # test_accusations.py, test_hangs.py
    reported = {"wait_data", "wait_evaluation"}  # test_reports.py

    assert here | of_the_owner | reported == set(STATES) - {"unobserved", "free", "allocated_idle"}


@pytest.mark.parametrize("signals", [HOPPER, AMPERE, replace(AMPERE, power_of_limit=0.6)])
def test_dense_work_loses_nothing(signals: Signals) -> None:
    seconds = run([((signals, CALM),)] * CYCLES)

    assert unobserved(seconds) <= 0.05 * CYCLES


@pytest.mark.parametrize("busy", [0.1, 0.3, 0.6])
def test_gpu_that_works_hard_for_a_part_of_the_time_is_not_accused_by_its_mean_power(busy: float) -> None:
    """Matrix products and little memory, on a GPU without GPM, of a loader that is too slow."""
    hard = idle(busy, replace(AMPERE, memory_activity=0.2, link_activity=0.25))
    seconds = run([((hard, CALM),)] * CYCLES)

    assert seconds["computing"] == pytest.approx(busy * CYCLES, rel=0.05)


def test_rank_without_data_makes_the_others_wait_for_their_peer() -> None:
    waiting, working = (idle(0.05), CALM), (HOPPER, CALM)

    seconds = run([(waiting, working, working, working)] * CYCLES)

    assert seconds["wait_peer"] >= 0.8 * unobserved(seconds)


def test_pipeline_stages_that_take_turns_wait_for_their_peer() -> None:
    stages = [tuple((HOPPER if turn == each else idle(0.0), CALM) for each in range(4)) for turn in range(4)]

    seconds = run(stages[second % 4] for second in range(CYCLES))

    assert seconds["wait_peer"] >= 0.8 * unobserved(seconds)


def test_memory_bound_work_without_gpm_is_busy_and_the_split_says_it_cannot_tell() -> None:
    seconds = run([((replace(AMPERE, memory_activity=1.0, power_of_limit=0.6), CALM),)] * CYCLES)

    assert seconds["computing"] >= 0.95 * CYCLES
    assert not diagnosable_splits(AMPERE, ())["memory_bound"]
    assert diagnosable_splits(HOPPER, ())["memory_bound"]


def test_power_cap_at_full_load_is_no_loss() -> None:
    """The software power cap is no signal at all here: it is how a GPU at full load looks."""
    assert unobserved(run([((replace(HOPPER, power_of_limit=1.0), CALM),)] * CYCLES)) <= 0.05 * CYCLES


Mixture = tuple[Callable[[int], Moment], dict[str, float]]
MIXTURES: dict[str, Mixture] = {
    "each step waits 40 % for input, and is throttled for 10 % of the time": (
        lambda _: (replace(idle(0.6), throttled_thermal=0.1, sm_clock=0.5), replace(CALM, hottest_thread=1.0)),
        {"wait_cpu": 0.4, "throttled_thermal": 0.05, "computing": 0.55},
    ),
    "the same with a slow disk": (
        lambda _: (replace(idle(0.6), throttled_thermal=0.1, sm_clock=0.5), replace(CALM, io_pressure=0.4)),
        {"wait_storage": 0.4, "throttled_thermal": 0.05, "computing": 0.55},
    ),
    "minutes of reading, then of throttled compute": (
        lambda second: (
            (idle(0.0), replace(CALM, io_pressure=0.9))
            if second % 10 < 4
            else (replace(HOPPER, throttled_thermal=1 / 6, sm_clock=0.5), CALM)
        ),
        {"wait_storage": 0.4, "throttled_thermal": 0.05, "computing": 0.55},
    ),
    "compute, all-reduce, and a checkpoint": (
        lambda second: (
            (HOPPER, CALM)
            if second % 10 < 6
            else (replace(HOPPER, sm_active=0.2, tensor_active=0.0, dram_active=0.2, link_activity=0.6), CALM)
            if second % 10 < 9
            else (idle(0.0), CALM)
        ),
        {"computing": 0.6, "communication": 0.3, "wait_other": 0.1},
    ),
    "both brakes at once": (
        lambda _: (replace(idle(0.8), throttled_thermal=0.2, throttled_power_brake=0.3, sm_clock=0.3), CALM),
        {"throttled_thermal": 0.14, "throttled_power_brake": 0.21, "computing": 0.45, "wait_other": 0.2},
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixture_is_split_within_five_points(name: str) -> None:
    moment, expected = MIXTURES[name]

    seconds = run((moment(second),) for second in range(CYCLES))

    found = {state: part / CYCLES for state, part in seconds.items()}
    assert found == pytest.approx({state: expected.get(state, 0.0) for state in STATES}, abs=0.05)
