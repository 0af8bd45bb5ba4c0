"""Which workloads are suspected of hanging."""

from __future__ import annotations

from exporter.attribution.owner import Target
from exporter.ledger.account import Allocation, Ledger, Reading
from exporter.ledger.hangs import find_suspects
from tests.unit.ledger.test_accusations import HOPPER, JOB, NOTHING, SPINS, run

READINGS = tuple(Reading(Target(f"GPU-{n}", n, ""), SPINS, (Allocation(JOB, 1.0, (100 + n,)),)) for n in range(2))
ALL = {JOB: (100, 101)}


def test_spinning_for_half_a_minute_without_a_pause_is_suspicious() -> None:
    before = run([[HOPPER] * 2])

    assert find_suspects(run([[SPINS] * 2] * 29, ledger=before), READINGS) == {}
    assert find_suspects(run([[SPINS] * 2] * 30, ledger=before), READINGS) == ALL


def test_a_cycle_of_work_ends_the_suspicion() -> None:
    hung = run([[HOPPER] * 2] + [[SPINS] * 2] * 31)
    again = run([[HOPPER] * 2] + [[SPINS] * 2] * 29, ledger=hung)

    assert find_suspects(hung, READINGS) == ALL
    assert find_suspects(again, READINGS) == {}


def test_workload_that_has_ended_is_not_suspected() -> None:
    """What it spun is kept for a while."""
    assert find_suspects(run([[SPINS] * 2] * 50), ()) == {}
    assert find_suspects(Ledger(), READINGS) == {}


def test_at_least_half_of_the_gpus_must_spin() -> None:
    readings = (*READINGS, Reading(Target("GPU-2", 2, ""), None, (Allocation(JOB, 1.0, (102,)),)))

    assert find_suspects(run([[SPINS, SPINS, NOTHING]] * 40), readings) == {JOB: (100, 101, 102)}
    assert find_suspects(run([[SPINS, HOPPER, NOTHING]] * 40), readings) == {}
