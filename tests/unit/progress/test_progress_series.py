"""From what programs report to the series of a page: each in its own, with its owner's labels, and for how long."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from exporter.attribution.owner import Owner
from exporter.progress.families import ProgressCounters
from exporter.progress.progress import Progress, Reported, StepTimes
from exporter.progress.protocol import COUNTERS

JOB = Owner("slurm:7", "slurm", slurm_job="7", user="ada")
OTHER = Owner("slurm:8", "slurm", slurm_job="8", user="bob")
Series = dict[tuple[str, ...], float]


def series(counters: ProgressCounters, reported: Reported, owners: Iterable[Owner] = (JOB, OTHER)) -> Series:
    """By the name and the labels of each."""
    return {
        (block.family.name, *sample.labels): sample.value
        for block in counters.blocks(reported, owners)
        for sample in block.samples
    }


def of(owner: Owner, **numbers: float) -> Reported:
    return Reported({owner: Progress(numbers)})


@pytest.mark.parametrize("name", COUNTERS)
def test_each_counter_has_a_series_of_its_own(name: str) -> None:
    assert series(ProgressCounters(), of(JOB, **{name: 7.0})) == {(f"gpu_workload_{name}_total", *JOB.labels): 7.0}


@pytest.mark.parametrize(
    ("progress", "found"),
    [
        (Progress(ratio=0.5), {("gpu_workload_progress_ratio", *JOB.labels): 0.5}),
        (Progress(remaining=90.0), {("gpu_workload_expected_seconds_remaining", *JOB.labels): 90.0}),
        (Progress(time_to_target=60.0), {("gpu_workload_time_to_target_seconds", *JOB.labels): 60.0}),
        (
            Progress(phases={"data": 2.0, "eval": 3.0}),
            {
                ("gpu_workload_phase_seconds_total", *JOB.labels, "data"): 2.0,
                ("gpu_workload_phase_seconds_total", *JOB.labels, "eval"): 3.0,
            },
        ),
        (
            Progress(steps=StepTimes(0.1, 0.2, 0.3, "5")),
            {
                ("gpu_workload_step_duration_seconds", *JOB.labels, "min"): 0.1,
                ("gpu_workload_step_duration_seconds", *JOB.labels, "median"): 0.2,
                ("gpu_workload_step_duration_seconds", *JOB.labels, "max"): 0.3,
                ("gpu_workload_slowest_rank_step_seconds", *JOB.labels, "5"): 0.3,
            },
        ),
    ],
)
def test_each_number_has_a_series_of_its_own(progress: Progress, found: Series) -> None:
    assert series(ProgressCounters(), Reported({JOB: progress})) == found


def test_each_owner_has_its_own() -> None:
    reported = Reported({JOB: Progress({"steps": 1.0}), OTHER: Progress({"steps": 2.0})}, {"accepted": 2})

    assert series(ProgressCounters(), reported) == {
        ("gpu_workload_steps_total", *JOB.labels): 1.0,
        ("gpu_workload_steps_total", *OTHER.labels): 2.0,
        ("gpu_exporter_progress_reports_total", "accepted"): 2.0,
    }


def test_counter_of_a_program_that_was_started_anew_goes_on() -> None:
    counters = ProgressCounters()
    for number in (10.0, 3.0, 5.0):
        found = series(counters, of(JOB, samples=number))

    assert found == {("gpu_workload_samples_total", *JOB.labels): 15.0}


def test_counter_stays_while_its_workload_does_and_goes_with_it() -> None:
    counters = ProgressCounters()
    reported = Reported({JOB: Progress({"samples": 4.0}, {"data": 2.0})}, {"accepted": 1})
    series(counters, reported)
    silent = Reported(results={"accepted": 1})
    own = {("gpu_exporter_progress_reports_total", "accepted"): 1.0}
    kept = {
        ("gpu_workload_samples_total", *JOB.labels): 4.0,
        ("gpu_workload_phase_seconds_total", *JOB.labels, "data"): 2.0,
    }

    assert series(counters, silent) == {**own, **kept}
    assert series(counters, silent, [JOB]) == {**own, **kept}
    assert series(counters, silent, [OTHER]) == own
    assert series(counters, silent, [JOB]) == own  # it does not come back


def test_where_nobody_reports_the_same_series_are_given_again() -> None:
    counters, silent = ProgressCounters(), Reported(results={"accepted": 0})

    first = counters.blocks(silent, [JOB])

    assert counters.blocks(Reported(results={"accepted": 0}), [JOB]) is first
    assert counters.blocks(Reported(results={"accepted": 1}), [JOB]) is not first


def test_while_a_workload_has_counters_its_end_is_seen_though_nobody_reports() -> None:
    counters, silent = ProgressCounters(), Reported(results={})
    series(counters, of(JOB, epochs=1.0))

    assert series(counters, silent) == {("gpu_workload_epochs_total", *JOB.labels): 1.0}
    assert series(counters, silent, []) == {}
