"""At every moment the used time of a GPU sums to its busy time: across MIG switches, plugs, reloads and owner swaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import NOBODY, Owner, Target
from exporter.core.clock import UnixTime
from exporter.core.families import Values
from exporter.core.units import Fraction
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.families import FAMILIES
from exporter.ledger.ledger import advance_ledger, drop_stale
from exporter.ledger.states import OF_BUSY_TIME, STATES
from exporter.ledger.states.state import Signals
from tests.depth import examples

OWNERS = (NOBODY, *(Owner(workload=f"slurm:{number}", kind="slurm", slurm_job=str(number)) for number in range(3)))
RETENTION_SECONDS = 2.5
BUSY_STATES = {STATES[index] for index, _ in OF_BUSY_TIME}
FAMILY = {family.name: family for family in FAMILIES}

ratio = st.one_of(st.sampled_from((0.0, 1.0)), st.floats(0, 1))


@st.composite
def holders(draw: st.DrawFn) -> tuple[Allocation, ...]:
    owners = draw(st.lists(st.sampled_from(OWNERS), unique=True, max_size=3))
    return tuple(
        Allocation(owner, Fraction(1.0 / len(owners)), draw(st.sampled_from(((), (number,)))), draw(ratio))
        for number, owner in enumerate(owners)
    )


@st.composite
def gpu(draw: st.DrawFn, index: int) -> tuple[Reading, ...]:
    """One GPU in one cycle: unplugged, in a reload, whole, or with instances; new instances have uuids of their own."""
    form = draw(st.sampled_from(("unplugged", "reload", "whole", "whole", "instances", "instances")))
    if form == "unplugged":
        return ()
    whole = Target(f"GPU-{index}", index, "")
    if form == "reload":
        return (Reading(whole, None, draw(holders())),)
    if form == "whole":
        return (Reading(whole, Signals(busy=draw(ratio)), draw(holders())),)
    made = draw(st.integers(1, 2))
    instances = (
        Target(f"MIG-{index}-{made}-{slot}", index, "", None, whole.uuid, slot, 0, share=Fraction(sevenths / 7))
        for slot, sevenths in draw(st.sampled_from((((0, 3), (1, 2)), ((0, 7),), ((2, 1),))))
    )
    return (
        Reading(whole, Signals()),
        *(Reading(each, Signals(busy=draw(ratio)), draw(holders())) for each in instances),
    )


@st.composite
def cycle(draw: st.DrawFn) -> LedgerInput:
    return LedgerInput(time=UnixTime(0.0), seconds=1.0, readings=(*draw(gpu(0)), *draw(gpu(1))))


def series(ledger: Ledger, family: str) -> Mapping[Values, float]:
    return {sample.labels: sample.value for sample in FAMILY[family].collect(ledger)}


def run(cycles: Sequence[LedgerInput]) -> list[Ledger]:
    ledgers = [Ledger()]
    for each in cycles:
        ledgers.append(drop_stale(advance_ledger(ledgers[-1], each), RETENTION_SECONDS))
    return ledgers


@given(st.lists(cycle(), min_size=2, max_size=12))
@examples(60)
def test_used_time_of_a_gpu_grows_by_its_busy_time(cycles: list[LedgerInput]) -> None:
    for before, after in pairwise(run(cycles)):
        busy_before, busy_after = (series(each, "gpu_state_seconds_total") for each in (before, after))
        used_before, used_after = (series(each, "gpu_workload_busy_gpu_seconds_total") for each in (before, after))
        assert [each for each, seconds in used_after.items() if seconds < used_before.get(each, 0.0)] == []
        for uuid in {uuid for _, uuid, _ in busy_after}:
            busy = sum(
                seconds - busy_before.get(labels, 0.0)
                for labels, seconds in busy_after.items()
                if labels[1] == uuid and labels[2] in BUSY_STATES
            )
            used = sum(
                seconds - used_before.get(labels, 0.0) for labels, seconds in used_after.items() if labels[1] == uuid
            )
            assert used == pytest.approx(busy, abs=1e-9), uuid


@given(st.lists(cycle(), min_size=2, max_size=12))
@examples(60)
def test_states_of_a_gpu_grow_by_the_time_that_it_is_there(cycles: list[LedgerInput]) -> None:
    for (before, after), each in zip(pairwise(run(cycles)), cycles, strict=True):
        first, second = (series(ledger, "gpu_state_seconds_total") for ledger in (before, after))
        there = {reading.target.uuid for reading in each.readings}
        for uuid in {labels[1] for labels in second} & {"GPU-0", "GPU-1"}:
            grown = [seconds - first.get(labels, 0.0) for labels, seconds in second.items() if labels[1] == uuid]
            assert min(grown) >= 0.0
            assert sum(grown) == pytest.approx(1.0 if uuid in there else 0.0, abs=1e-9)
