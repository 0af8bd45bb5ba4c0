"""Services and interactive sessions: whether they wait for somebody, or their own program is at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.core.units import Fraction
from exporter.host.model import ProcessSignals
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES
from tests.unit.ledger.test_accusations import JOB, NOTHING, SLEEPS, SPINS, run, shares, straggling
from tests.unit.ledger.test_signatures import CALM, HOPPER, idle

SERVER = Owner(workload="pod:serving/llm", kind="pod", namespace="serving", pod="llm")
FULL = replace(SLEEPS, hottest_thread=1.0)
POLLS = replace(FULL, polling=True)


@pytest.mark.parametrize(
    ("process", "state"), [(FULL, "wait_cpu"), (POLLS, "wait_other"), (SLEEPS, "wait_user"), (None, "wait_user")]
)
def test_notebook_that_computes_on_the_cpu_does_not_wait_for_its_user(
    process: ProcessSignals | None, state: str
) -> None:
    """For hours after its last kernel; a thread that takes no memory may compute in place, or only poll."""
    before = run([[HOPPER]] * 20, work="interactive")
    found = run([[NOTHING]] * 3600, work="interactive", processes={100: process} if process else {}, ledger=before)

    assert shares(found, since=before) == {state: pytest.approx(1.0)}


@pytest.mark.parametrize(
    ("process", "busy", "waits"),
    [
        (POLLS, 0.1, {"wait_other": 0.6, "wait_requests": 0.4}),
        (SLEEPS, 0.1, {"wait_requests": 1.0}),
        (POLLS, 0.0, {"wait_requests": 1.0}),
    ],
)
def test_service_that_spins_for_its_turn_on_a_shared_gpu_does_not_lack_requests(
    process: ProcessSignals, busy: float, waits: dict[str, float]
) -> None:
    """Its neighbour runs beyond its own half: whether a request waits for its turn meanwhile, nobody sees."""
    neighbour = 0.5 + 0.6 * (0.5 - busy)
    shared = Reading(
        Target("GPU-0", 0, ""),
        idle(busy + neighbour),
        (Allocation(SERVER, Fraction(0.5), (100,), busy), Allocation(JOB, Fraction(0.5), (200,), neighbour)),
    )
    ledger = Ledger()
    for _ in range(30):
        step = LedgerInput(
            time=0.0,
            seconds=1.0,
            readings=(shared,),
            hosts={SERVER: replace(CALM, processes={100: process}), JOB: CALM},
            work={SERVER: "service"},
        )
        before, ledger = ledger, advance_ledger(ledger, step)
    seconds = {
        state: now - then
        for state, now, then in zip(STATES, ledger.owners[SERVER].seconds, before.owners[SERVER].seconds, strict=True)
        if state.startswith("wait_")
    }

    assert {state: part / sum(seconds.values()) for state, part in seconds.items() if part} == pytest.approx(waits)


def test_ranks_that_spin_beside_a_first_one_that_polls_in_a_session_hold_up_and_accuse_nobody() -> None:
    """An engine over four GPUs in a notebook: its scheduler looks for work all the time, and its user has gone."""
    found = run([[NOTHING, SPINS, SPINS, SPINS]] * 100, work="interactive", processes={100: POLLS})

    assert shares(found, 0) == {"wait_other": pytest.approx(1.0)}
    assert [shares(found, gpu) for gpu in (1, 2, 3)] == [{"wait_user": pytest.approx(1.0)}] * 3
    assert not any(straggling(found).values())
