"""What programs report of themselves goes before what the host and the driver suggest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.attribution.owner import Owner, Target
from exporter.host.model import HostSignals, ProcessSignals, Rank
from exporter.ledger.account import Allocation, Ledger, LedgerInput, Reading
from exporter.ledger.ledger import advance_ledger
from exporter.ledger.states import STATES, diagnosable_splits
from exporter.ledger.states.state import Signals

JOB = Owner(workload="slurm:7", kind="slurm", slurm_job="7")
GPUS = tuple(Target(f"GPU-{index}", index, f"0000:0{index}:00.0") for index in range(4))
SLOW_DISK = HostSignals(io_pressure=0.9, written_bytes_per_second=2e9, read_bytes_per_second=0.0, hottest_thread=1.0)


def run(
    *ranks: Rank, busy: tuple[float, ...] = (0.5,), host: HostSignals = SLOW_DISK, cycles: int = 100
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds by state and straggling seconds by GPU; rank N is on GPU N."""
    ledger = Ledger()
    for _ in range(cycles):
        readings = tuple(
            Reading(target, Signals(busy=share, power_of_limit=0.9), (Allocation(JOB, 1.0, (100 + target.index,)),))
            for target, share in zip(GPUS, busy, strict=False)
        )
        current = LedgerInput(time=0.0, seconds=1.0, readings=readings, hosts={JOB: host}, ranks={JOB: ranks})
        ledger = advance_ledger(ledger, current)
    entry = ledger.owners[JOB]
    seconds = {state: each for state, each in zip(STATES, entry.seconds, strict=True) if each and state != "computing"}
    return seconds, {uuid: round(past.straggling_seconds, 3) for uuid, past in entry.past.items()}


def rank(number: int, phases: Mapping[str, float] | None = None, seconds: float | None = None) -> Rank:
    return Rank(100 + number, str(number), phases or {}, seconds)


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("data", "wait_data"),
        ("checkpoint", "wait_checkpoint"),
        ("evaluation", "wait_evaluation"),
        ("communication", "wait_peer"),
    ],
)
def test_wait_inside_a_phase_is_that_whatever_the_host_says(phase: str, state: str) -> None:
    calm = HostSignals(io_pressure=0.0)
    for host in (SLOW_DISK, calm) if phase != "communication" else (calm,):
        assert run(rank(0, {phase: 0.6}), host=host)[0] == {state: 50.0}


def test_wait_of_a_stopped_program_inside_a_phase_is_that() -> None:
    """A user stops a program in the middle of a phase: what it reported of the cycle until then holds."""
    stopped = HostSignals(processes={100: ProcessSignals(stopped=True)})

    assert run(rank(0, {"data": 0.6}), host=stopped)[0] == {"wait_data": 50.0}


def test_what_is_outside_of_the_phases_is_judged_as_before() -> None:
    seconds, _ = run(rank(0, {"data": 0.2, "forward": 0.8}), host=HostSignals(io_pressure=0.9))

    assert {state: round(each, 6) for state, each in seconds.items()} == {"wait_data": 20.0, "wait_storage": 30.0}


def test_cause_unknown_shrinks_where_a_program_reports() -> None:
    nothing = HostSignals(hottest_thread=0.1)

    assert run(host=nothing)[0] == {"wait_other": 50.0}
    seconds, _ = run(rank(0, {"data": 0.3, "evaluation": 0.2}), host=nothing)
    assert seconds == {"wait_data": pytest.approx(30.0), "wait_evaluation": pytest.approx(20.0)}


def test_program_that_evaluates_on_the_cpu_for_an_hour_does_not_leave_its_gpu_unused() -> None:
    seconds, _ = run(rank(0, {"evaluation": 1.0}), busy=(0.0,), cycles=3600)

    assert seconds == {"wait_evaluation": 3600.0}


def test_phase_of_a_process_on_no_gpu_counts_where_those_on_the_gpu_say_nothing() -> None:
    launcher = Rank(9000, "0", {"data": 1.0})

    assert run(launcher)[0] == {"wait_data": 50.0}
    assert "wait_data" not in run(launcher, rank(0, {"forward": 1.0}))[0]


def test_phase_of_another_rank_explains_nothing() -> None:
    seconds, _ = run(rank(0, {"data": 1.0}), rank(1, {"forward": 1.0}), busy=(0.5, 0.5), host=HostSignals())

    assert seconds == {"wait_data": 50.0, "wait_other": 50.0}


def test_two_programs_on_one_gpu_are_in_a_phase_for_the_mean_of_both() -> None:
    other = Rank(100, "1", {"forward": 1.0})
    seconds, _ = run(rank(0, {"data": 0.4}), other, host=HostSignals())

    assert seconds == {"wait_data": pytest.approx(20.0), "wait_other": pytest.approx(30.0)}


def test_program_that_has_ended_its_work_beside_it_halves_nothing() -> None:
    """Another kernel of the notebook lives on, and the totals that it reports stay as they are."""
    works, ended = rank(0, {"data": 0.4}), Rank(100, "1")

    assert run(works, ended, host=HostSignals())[0]["wait_data"] == pytest.approx(40.0)
    assert run(works, replace(ended, advances=True), host=HostSignals())[0]["wait_data"] == pytest.approx(20.0)
    assert run(Rank(9000, "0", {"data": 1.0}), ended)[0] == {"wait_data": 50.0}


@pytest.mark.parametrize(
    ("paces", "slow"),
    [
        ((3.0, 1.0), {"GPU-0": 66.667}),
        ((3.0, 1.0, 1.0), {"GPU-0": 66.667}),
        ((3.0, 3.0, 1.0, 1.0), {"GPU-0": 44.444, "GPU-1": 44.444}),
        ((3.0, 2.0, 1.0, 1.0), {"GPU-0": 55.556}),
    ],
)
def test_all_wait_for_the_slowest_and_for_who_is_about_as_slow(
    paces: tuple[float, ...], slow: Mapping[str, float]
) -> None:
    ranks = [rank(each, seconds=pace) for each, pace in enumerate(paces)]
    _, told = run(*ranks, busy=(1.0,) * len(paces), host=HostSignals())

    assert {uuid: seconds for uuid, seconds in told.items() if seconds} == pytest.approx(slow, abs=0.01)


def test_straggler_by_the_programs_own_steps_wins_over_heuristics() -> None:
    """By the GPUs alone, GPU 0 is the one that the others wait for: it is the only one that computes."""
    busy = (1.0, 0.1, 0.1, 0.1)
    _, seen = run(busy=busy, host=HostSignals(launchers={100 + each: 50 for each in range(4)}))
    _, told = run(*(rank(each, seconds=3.0 if each == 2 else 1.0) for each in range(4)), busy=busy, host=HostSignals())

    assert [uuid for uuid, seconds in seen.items() if seconds] == ["GPU-0"]
    assert {uuid: seconds for uuid, seconds in told.items() if seconds} == {"GPU-2": pytest.approx(66.667, abs=0.01)}


def test_ranks_that_need_about_the_same_have_no_straggler() -> None:
    busy = (1.0, 0.1, 0.1, 0.1)
    _, told = run(*(rank(each, seconds=1.0 + each / 100) for each in range(4)), busy=busy, host=HostSignals())

    assert set(told.values()) == {0.0}


def test_states_that_only_a_program_can_tell_are_not_promised_where_none_can_report() -> None:
    signals = Signals(busy=0.5)

    assert not diagnosable_splits(signals, ())["wait_data"]
    assert diagnosable_splits(replace(signals), ("reported_phases",))["wait_evaluation"]
