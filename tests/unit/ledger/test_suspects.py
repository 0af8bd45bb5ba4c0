"""Which workloads are suspected of hanging."""

from __future__ import annotations

import pytest

from exporter.attribution.owner import Target
from exporter.core.clock import MonotonicTime
from exporter.ledger.account import Allocation, Ledger, OwnerEntry, Reading
from exporter.ledger.peers import HangDetector
from exporter.ledger.states import STATES
from tests.unit.ledger.test_accusations import HOPPER, JOB, SPINS, run

READINGS = tuple(Reading(Target(f"GPU-{n}", n, ""), SPINS, (Allocation(JOB, 1.0, (100 + n,)),)) for n in range(2))


def seconds_of(spinning: float, busy: float) -> tuple[float, ...]:
    return tuple({"wait_collective": spinning, "computing": busy}.get(state, 0.0) for state in STATES)


OLD = seconds_of(1.0, 0.0)


def _suspected(passes: int, *, spins: bool, ledger: Ledger, suspects: HangDetector, at: float) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for each in range(passes):
        after = run([[SPINS if spins else HOPPER] * 2], ledger=ledger)
        found += suspects.of(ledger, after, READINGS, MonotonicTime(at + each)).values()
        ledger = after
    return found


def test_spinning_for_half_a_minute_without_a_pause_is_suspicious() -> None:
    suspects, ledger = HangDetector(), run([[HOPPER] * 2])

    assert _suspected(30, spins=True, ledger=ledger, suspects=suspects, at=0.0) == []
    assert _suspected(1, spins=True, ledger=ledger, suspects=suspects, at=30.0) == [(100, 101)]


def test_a_pass_of_work_ends_the_suspicion() -> None:
    suspects, ledger = HangDetector(), run([[HOPPER] * 2])
    _suspected(31, spins=True, ledger=ledger, suspects=suspects, at=0.0)

    assert _suspected(1, spins=False, ledger=ledger, suspects=suspects, at=31.0) == []
    assert _suspected(29, spins=True, ledger=ledger, suspects=suspects, at=32.0) == []


def test_workload_that_has_ended_is_not_suspected() -> None:
    """What it spun is kept for a while, and grows no more."""
    suspects, ledger = HangDetector(), run([[SPINS] * 2] * 5)

    assert suspects.of(ledger, ledger, (), MonotonicTime(0.0)) == {}
    assert suspects.of(ledger, ledger, (), MonotonicTime(31.0)) == {}


@pytest.mark.parametrize(("spun", "computed", "suspected"), [(1.0, 9.0, False), (4.9, 5.1, False), (5.0, 5.0, True)])
def test_half_of_a_pass_must_be_spinning_whatever_was_before(spun: float, computed: float, *, suspected: bool) -> None:
    before, after = (
        Ledger(owners={JOB: OwnerEntry(tuple(100.0 * old + new for old, new in zip(OLD, seconds, strict=True)))})
        for seconds in (seconds_of(0.0, 0.0), seconds_of(spun, computed))
    )
    suspects = HangDetector()
    suspects.of(before, after, READINGS, MonotonicTime(0.0))

    assert bool(suspects.of(before, after, READINGS, MonotonicTime(30.0))) is suspected
