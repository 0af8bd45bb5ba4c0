"""Ranks that meet in collectives: who waits, who is named, and who must not be, at every length of step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.attribution.owner import Target
from exporter.core.clock import UnixTime
from exporter.core.units import Fraction
from exporter.ledger.account import Allocation, Ledger, LedgerInput, OwnerEntry, Reading
from exporter.ledger.hangs import find_suspects
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.peers import peers_of
from exporter.ledger.ranks import compare_ranks
from exporter.ledger.states import DEFAULTS, STATES
from exporter.ledger.states.state import Signals, UsageHistory
from tests.unit.ledger.synchronous_job import (
    JOB,
    Found,
    Signature,
    independent_steps,
    late_steps,
    play,
)
from tests.unit.ledger.test_hangs import HANGS

ACCUSED = ("wait_collective", "wait_peer", "low_sm_activity")
STEPS = (0.35, 0.7, 1.3, 2.6, 5.3, 10.0, 37.0)
SIGNATURES = [
    Signature(),
    Signature(spin_sm=0.22, spin_tensor=0.04, spin_memory=0.04, apart=0.025),
    Signature(spin_sm=0.06, spin_tensor=0.02, spin_memory=0.08, apart=0.025),
]


def job(  # noqa: PLR0913 - each is one fact of the job
    ranks: int,
    step: float,
    part: float,
    *,
    how: str = "late",
    signature: Signature | None = None,
    gpm: bool = True,
    launcher: bool = True,
) -> Found:
    rng = random.Random(f"{ranks} {step} {part}")  # noqa: S311 - the same in each run
    steps = late_steps(ranks, step, part, rng, how=how)
    seconds = max(200.0, 60.0 + 6 * step)
    return play(steps, ranks, rng, seconds=seconds, signature=signature, gpm=gpm, launcher=launcher)


def assert_only_the_first_is_named(found: Found, off: float) -> None:
    """The others truly spun; what is said of them may be `off` by a fraction of the time, and never too much."""
    innocents = range(1, len(found.truth))
    for rank in innocents:
        assert found.share(rank, "wait_collective") == pytest.approx(found.true(rank, "spin"), abs=off)
        assert found.share(rank, "wait_collective") <= found.true(rank, "spin") + 0.02
        assert found.share(rank, "low_sm_activity") <= 0.01
        assert found.share(rank, "wait_peer") <= 0.01
        assert found.straggling[rank] == 0.0
    assert sum(found.share(0, state) for state in ACCUSED) <= 0.01
    spun = sum(found.true(rank, "spin") for rank in innocents) / len(innocents)
    assert found.straggling[0] / found.seconds == pytest.approx(spun, abs=off)


@pytest.mark.parametrize("step", STEPS)
def test_pair_in_which_two_fifths_of_each_step_wait_names_the_late_rank(step: float) -> None:
    found = job(2, step, 0.4)

    assert_only_the_first_is_named(found, 0.04)
    waits = sum(found.share(0, state) for state in ("wait_storage", "wait_other"))
    assert waits == pytest.approx(found.true(0, "late") + found.true(0, "idle"), abs=0.02)


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize(
    ("ranks", "step", "part", "how"),
    [
        (16, 1.5, 0.4, "late"),
        (8, 1.0, 0.75, "late"),
        (8, 1.3, 0.2, "work"),
        (4, 5.3, 0.2, "late"),
        (2, 2.6, 0.4, "late"),
    ],
)
def test_job_of_any_size_and_signature_names_the_late_rank(
    ranks: int, step: float, part: float, how: str, signature: Signature
) -> None:
    assert_only_the_first_is_named(job(ranks, step, part, how=how, signature=signature), 0.09)


@pytest.mark.parametrize(("ranks", "step", "part"), [(2, 0.35, 0.4), (2, 5.3, 0.4), (2, 37.0, 0.4), (8, 1.0, 0.75)])
def test_gpus_without_gpm_show_it_by_memory_and_power(ranks: int, step: float, part: float) -> None:
    assert_only_the_first_is_named(job(ranks, step, part, gpm=False), 0.08)


@pytest.mark.parametrize(("ranks", "step"), [(2, 0.7), (8, 1.3), (16, 5.3)])
@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("gpm", [True, False])
def test_job_without_a_late_rank_names_none(ranks: int, step: float, signature: Signature, *, gpm: bool) -> None:
    found = job(ranks, step, 0.0, signature=signature, gpm=gpm)

    assert max(found.straggling) == 0.0
    assert all(found.share(rank, state) <= 0.02 for rank in range(ranks) for state in ACCUSED)


@pytest.mark.parametrize("step", [0.35, 1.3])
def test_ranks_that_are_late_in_turn_are_not_named_small_kernels_or_stragglers(step: float) -> None:
    found = job(8, step, 0.4, how="random")

    assert max(found.straggling) <= 2.0
    assert all(found.share(rank, state) <= 0.02 for rank in range(8) for state in ACCUSED)


@pytest.mark.parametrize(("gpm", "launcher"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("kinds", [("work", "half", "half", "half"), ("work", "half")])
def test_smaller_batches_on_some_gpus_are_no_wait(kinds: tuple[str, ...], *, gpm: bool, launcher: bool) -> None:
    rng = random.Random(5)  # noqa: S311 - the same in each run
    steps = independent_steps(kinds, [0.99] * len(kinds))
    found = play(steps, len(kinds), rng, gpm=gpm, launcher=launcher)

    assert max(found.straggling) == 0.0
    assert all(found.share(rank, state) <= 0.02 for rank in range(len(kinds)) for state in ACCUSED)


def _without_traffic(signals: Signals, rank: int) -> Signals:
    return replace(signals, link_activity=0.0 if rank else signals.link_activity)


def _at_full_power(signals: Signals, rank: int) -> Signals:
    return replace(signals, power_of_limit=0.9) if rank else signals


@pytest.mark.parametrize(("seen", "unclear"), [(_without_traffic, 0.0), (_at_full_power, 0.58)])
def test_ranks_without_common_traffic_or_with_full_power_are_not_accused(
    seen: Callable[[Signals, int], Signals], unclear: float
) -> None:
    """The one are runs that never meet; of the other, power tells of work where activity tells of a spin."""
    rng = random.Random(6)  # noqa: S311 - the same in each run
    found = play(late_steps(4, 1.0, 0.6, rng), 4, rng, seen=seen)

    assert max(found.straggling) == 0.0
    assert all(found.share(rank, state) <= 0.01 for rank in range(4) for state in ACCUSED)
    assert found.share(1, "possible_spin") == pytest.approx(unclear, abs=0.02)
    assert found.share(1, "computing") + found.share(1, "possible_spin") >= 0.95


def test_ranks_without_gpm_that_no_launcher_started_are_not_known_to_work_together() -> None:
    found = job(2, 1.3, 0.4, gpm=False, launcher=False)

    assert max(found.straggling) == 0.0
    assert all(found.share(rank, state) <= 0.01 for rank in range(2) for state in ACCUSED)


def test_job_whose_ranks_wait_in_each_step_does_not_hang() -> None:
    rng = random.Random(7)  # noqa: S311 - the same in each run
    ledgers: list[Ledger] = []
    readings = tuple(Reading(Target(f"GPU-{n}", n, ""), None, (Allocation(JOB, pids=(100 + n,)),)) for n in range(8))
    play(late_steps(8, 1.0, 0.75, rng), 8, rng, seconds=150, each=ledgers.append)

    assert len(ledgers) > 120
    assert not any(find_suspects(ledger, readings) for ledger in ledgers)


def test_cycle_of_no_length_changes_nothing() -> None:
    rng = random.Random(8)  # noqa: S311 - the same in each run
    found = play(late_steps(2, 1.0, 0.4, rng), 2, rng, seconds=100)
    signals = found.ledger.targets["GPU-0"].signals
    readings = tuple(
        Reading(entry.target, signals, (Allocation(JOB, pids=(100 + entry.target.index,)),))
        for entry in found.ledger.targets.values()
    )
    after = advance_ledger(found.ledger, LedgerInput(time=UnixTime(0.0), seconds=0.0, readings=readings))

    assert after.owners[JOB].seconds == found.ledger.owners[JOB].seconds


def test_gpu_with_instances_and_its_instances_are_no_ranks() -> None:
    gpu = Target("GPU-0", 0, "")
    instances = [Target(f"MIG-{number}", 0, "", parent_uuid="GPU-0", share=Fraction(0.5)) for number in range(2)]
    allocations = (Allocation(JOB, pids=(1,)),)
    readings = tuple(Reading(target, Signals(busy=1.0), allocations) for target in (gpu, *instances))
    current = LedgerInput(time=UnixTime(0.0), seconds=1.0, readings=readings)

    assert compare_ranks({}, current, peers_of(readings, {}), DEFAULTS) == {}
    assert advance_ledger(Ledger(), current).owners[JOB].past.keys() == {"MIG-0", "MIG-1"}


@pytest.mark.parametrize(("peer", "waits"), [(None, False), (10.0, False), (3500.0, True), (7200.0, True)])
def test_rank_that_never_ran_takes_part_only_while_the_others_compute_nothing_either(
    peer: float | None, *, waits: bool
) -> None:
    """A service whose first kernel on a GPU, after an hour without one, looks like a spin.

    `peer`: seconds since its other GPU on this node computed. Without another GPU no rank here waited for this one.
    """
    pasts = {"GPU-0": UsageHistory(quiet_seconds=3600.0, uncomputed_seconds=3600.0)}
    pasts |= {} if peer is None else {"GPU-1": UsageHistory(ran=True, uncomputed_seconds=peer)}
    readings = tuple(
        Reading(Target(uuid, index, ""), HANGS, (Allocation(JOB, pids=(100 + index,)),))
        for index, uuid in enumerate(pasts)
    )
    current = LedgerInput(
        time=UnixTime(0.0), seconds=1.0, readings=readings, work={JOB: "service"}, spread=frozenset({JOB})
    )
    compared = compare_ranks({JOB: OwnerEntry(past=pasts)}, current, peers_of(readings, {}), DEFAULTS)

    assert (compared[JOB, "GPU-0"].collective is not None) is waits


def test_units_that_are_active_while_no_kernel_runs_are_no_witness() -> None:
    """The driver reports a GPU that is busy 5 % of the time, and its tensor cores active for 15 %: one is wrong."""
    signals = (
        Signals(busy=1.0, tensor_active=0.61, dram_active=0.3, sm_active=0.92),
        Signals(busy=0.05, tensor_active=0.15, dram_active=0.25, sm_active=0.35),
    )
    readings = tuple(
        Reading(Target(f"GPU-{index}", index, ""), each, (Allocation(JOB, Fraction(1.0), (100 + index,)),))
        for index, each in enumerate(signals)
    )
    ledger = Ledger()
    for cycle in range(60):
        now = UnixTime(1000.0 + cycle)
        ledger = advance_ledger(ledger, LedgerInput(time=now, seconds=1.0, readings=readings), DEFAULTS)

    states = dict(zip(STATES, ledger.owners[JOB].seconds, strict=True))

    assert states["wait_peer"] == pytest.approx(0.95 * 40, abs=2.0)
    assert states["wait_collective"] == 0.0
