"""The ledger lets go of what is gone, though the GPU and one of its owners stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.attribution.owner import NOBODY, Owner, Target
from exporter.core.clock import UnixTime
from exporter.core.units import Fraction
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger, drop_stale
from exporter.ledger.states.state import Signals
from tests.growth import grown

GPU = Target("GPU-0", 0, "")
STAYS = Owner("slurm:1", "slurm", slurm_job="1")


def job(number: int) -> Owner:
    return Owner(f"slurm:{number + 2}", "slurm", slurm_job=str(number + 2))


def instances(number: int) -> tuple[Reading, ...]:
    made = Target(f"MIG-{number}", 0, "", parent_uuid="GPU-0", gpu_instance=1, compute_instance=0, share=Fraction(1.0))
    return Reading(GPU, Signals()), Reading(made, Signals(busy=0.5), (Allocation(STAYS, pids=(1,)),))


def jobs(number: int) -> tuple[Reading, ...]:
    allocations = (
        Allocation(STAYS, Fraction(0.5), (1,)),
        Allocation(job(number), Fraction(0.5), (number,)),
        Allocation(NOBODY, Fraction(0.0), (number + 1000,)),
    )
    return (Reading(GPU, Signals(busy=0.5), allocations),)


def gpus(number: int) -> tuple[Reading, ...]:
    return (Reading(Target(f"GPU-{number}", 0, ""), Signals(busy=1.0), (Allocation(STAYS, pids=(1,)),)),)


@pytest.mark.parametrize("generation", [instances, jobs, gpus])
def test_ledger_does_not_grow_with_what_is_gone(generation: Callable[[int], tuple[Reading, ...]]) -> None:
    kept = [Ledger()]

    def next_round(number: int) -> None:
        current = LedgerInput(time=UnixTime(float(number)), seconds=1.0, readings=generation(number))
        kept[0] = drop_stale(advance_ledger(kept[0], current), 3.0)

    assert grown(kept, next_round) == {}
