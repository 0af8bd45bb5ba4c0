"""A hang by several witnesses: units at rest, power, what the work drew before, reported steps, and NCCL's RAS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from exporter.attribution.owner import Target
from exporter.core.clock import UnixTime
from exporter.host.model import Rank
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states.state import Signals
from tests.unit.ledger.test_accusations import HOPPER, JOB, SPINS, SPINS_WITHOUT_GPM, run, shares, straggling
from tests.unit.ledger.test_signatures import AMPERE, CALM

LIGHT = replace(
    HOPPER, sm_active=0.3, tensor_active=0.1, vector_active=0.04, dram_active=0.09, memory_activity=0.12,
    power_of_limit=200 / 700,
)  # fmt: skip
HANGS = replace(SPINS, power_of_limit=140 / 700)
TINY_ON_AMPERE = replace(AMPERE, memory_activity=0.04, link_activity=0.0, power_of_limit=90 / 400)


def hang(
    signals: Signals, before: Sequence[Signals] = (), *, verdict: str = "", advances: bool = False, seconds: int = 300
) -> dict[str, float]:
    """Two ranks do `before`, and then the same for `seconds`; return the states of one of them meanwhile."""
    ledger = started = run([[each] * 2 for each in before]) if before else Ledger()
    targets = [Target(f"GPU-{number}", number, "") for number in range(2)]
    for _ in range(seconds):
        current = LedgerInput(
            time=UnixTime(0.0),
            seconds=1.0,
            readings=tuple(Reading(each, signals, (Allocation(JOB, pids=(100 + each.index,)),)) for each in targets),
            hosts={JOB: CALM},
            nccl={JOB: verdict} if verdict else {},
            ranks={JOB: (Rank(100, advances=advances),)},
        )
        ledger = advance_ledger(ledger, current)
    return shares(ledger, 0, started if before else None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([LIGHT] * 30, HANGS),
        ([HOPPER] * 60, replace(SPINS, power_of_limit=0.45)),
        ([], HANGS),
        ([replace(LIGHT, sm_active=None, tensor_active=None, vector_active=None, dram_active=None)] * 30,
         replace(SPINS_WITHOUT_GPM, power_of_limit=0.24)),
        ([AMPERE] * 60, replace(SPINS_WITHOUT_GPM, memory_activity=0.04)),
    ],
)  # fmt: skip
def test_hang_is_found_after_light_work_heavy_work_and_none(before: Sequence[Signals], after: Signals) -> None:
    assert hang(after, before)["wait_collective"] >= 0.88


def test_tiny_kernels_without_gpm_are_neither_a_collective_nor_small_kernels() -> None:
    """Memory at 4 % and 90 of 400 W: a spin may look the same, so nothing is accused."""
    assert hang(TINY_ON_AMPERE) == {"possible_spin": pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("verdict", "state"),
    [("rank_lags", "wait_collective"), ("rank_missing", "wait_collective"), ("in_step", "possible_spin")],
)
def test_nccl_decides_where_the_signs_are_in_doubt(verdict: str, state: str) -> None:
    assert hang(TINY_ON_AMPERE, verdict=verdict)[state] >= 0.9


@pytest.mark.parametrize(("verdict", "advances"), [("moving", False), ("", True)])
def test_job_whose_collectives_or_steps_go_on_does_not_hang(verdict: str, *, advances: bool) -> None:
    assert "wait_collective" not in hang(HANGS, verdict=verdict, advances=advances)


def test_kernels_of_two_seconds_without_work_are_no_hang_yet() -> None:
    assert "wait_collective" not in hang(HANGS, [HOPPER] * 10, seconds=4)


def test_ranks_with_very_small_kernels_do_not_wait_for_each_other() -> None:
    """Vector pipes of four GPUs at 3 %, a little apart: a spin rests them, and one GPU alone is below the limit."""
    tiny = [replace(SPINS, tensor_active=0.01, vector_active=part, dram_active=0.03) for part in (0.029, 0.031, 0.032)]
    ledger = run([[tiny[0], *tiny]] * 120)

    assert [shares(ledger, gpu).get("wait_collective", 0.0) for gpu in range(4)] == [0.0] * 4
    assert not any(straggling(ledger).values())


def test_rank_near_the_limits_of_a_spin_is_not_the_one_that_others_wait_for() -> None:
    """All hang; tensor cores of one GPU show a little more."""
    near = replace(HANGS, tensor_active=0.031)
    ledger = run([[HANGS, HANGS, near, HANGS]] * 120)

    assert shares(ledger, 0)["wait_collective"] >= 0.9
    assert not any(straggling(ledger).values())


def test_ranks_that_all_hang_are_not_compared_with_each_other() -> None:
    """Light work, then a spin that shows activity, a tenth apart from GPU to GPU: none waits for another one."""
    spin = replace(HANGS, sm_active=0.09, tensor_active=0.04, dram_active=0.026, memory_activity=0.05)
    apart = [replace(spin, tensor_active=0.04 * each, dram_active=0.026 * each) for each in (0.9, 1.0)]
    began = run([[LIGHT, LIGHT]] * 30)
    ledger = run([apart] * 120, ledger=began)

    assert [shares(ledger, gpu, began)["possible_spin"] for gpu in range(2)] == pytest.approx([1.0, 1.0])
