"""Rows and counters hold what jobs really had, whatever happens to the exporter meanwhile."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.accounting.model import HOUR_SECONDS, Amount, Cycle, Place, Stored, Usage
from exporter.accounting.tracker import AllocationTracker
from exporter.attribution.owner import NOBODY, Owner, Ownership, WorkloadInfo
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from tests.depth import examples
from tests.growth import grown
from tests.unit.accounting.node import Job, Node, by_account

T0 = 1_760_000_400.0  # a full hour
DAY = 24 * HOUR_SECONDS
NEAR = 1e-6

Play = Callable[..., Node]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    nodes: list[Node] = []

    def start(*jobs: Job, begin: float = T0, **options: tuple[str, ...]) -> Node:
        nodes.append(Node(tmp_path / f"{len(nodes)}.sqlite", jobs, begin, **options))
        return nodes[-1]

    yield start
    for node in nodes:
        node.close()


def test_reported_start_and_end_count_to_the_second_part(play: Play) -> None:
    node = play(Job("1", T0 + 3.25, T0 + 8.5))

    node.cycles(T0 + 20)

    assert node.seconds()["1"] == pytest.approx(5.25, abs=NEAR)


def test_unreported_end_is_taken_between_two_cycles(play: Play) -> None:
    node = play(Job("1", T0 + 3.0, T0 + 8.5, reports_end=False))

    node.cycles(T0 + 20)

    assert node.seconds()["1"] == pytest.approx(5.5, abs=NEAR)


def test_job_over_the_hour_has_a_row_in_each(play: Play) -> None:
    node = play(Job("1", T0 + HOUR_SECONDS - 10.5, T0 + HOUR_SECONDS + 20.0), begin=T0 + HOUR_SECONDS - 60)

    node.cycles(T0 + HOUR_SECONDS + 40)

    rows = [row for row in node.rows() if row["facts"]["owner"][5] == "1"]
    assert [(row["hour"], round(sum(row["states"].values()), 6)) for row in rows] == [
        (T0 // HOUR_SECONDS, 10.5),
        (T0 // HOUR_SECONDS + 1, 20.0),
    ]


@example(0.5, [7.0])
@given(st.floats(0.0, 60.0), st.lists(st.floats(0.2, 30.0), min_size=1, max_size=4))
@examples(25)
def test_cycle_over_the_end_of_an_hour_gives_each_hour_its_part(
    tmp_path_factory: pytest.TempPathFactory, offset: float, lengths: list[float]
) -> None:
    """Whatever the length of the cycles and the phase in which they meet the hour."""
    turn = T0 + HOUR_SECONDS
    jobs = (Job("1", turn - 50.0, turn + 40.0),)
    node = Node(tmp_path_factory.mktemp("node") / "a.sqlite", jobs, turn - 130.0 + offset)
    for length in itertools.cycle(lengths):
        node.cycle(length)
        if node.now > turn + 120.0:
            break

    assert [(row["hour"], sum(row["states"].values())) for row in node.rows() if row["facts"]["owner"][5] == "1"] == [
        (T0 // HOUR_SECONDS, pytest.approx(50.0, abs=NEAR)),
        (T0 // HOUR_SECONDS + 1, pytest.approx(40.0, abs=NEAR)),
    ]
    written = [row for batch in node.batches for row in batch.hours.values()]
    assert [row for row in written if not 0.0 < row.until - row.key.hour * HOUR_SECONDS <= HOUR_SECONDS] == []
    node.close()


def test_exporter_that_is_down_while_a_job_runs_books_the_gap_as_unobserved(play: Play) -> None:
    node = play(Job("1", T0 + 5, T0 + 100))
    node.cycles(T0 + 30)
    node.sleep(40)
    node.restart()

    node.cycles(T0 + 120)

    states = [row["states"] for row in node.rows() if row["facts"]["owner"][5] == "1"]
    assert len(states) == 1
    assert states[0]["computing"] + states[0]["unobserved"] == pytest.approx(95.0, abs=NEAR)
    assert states[0]["unobserved"] == pytest.approx(40.0, abs=2.0)


def test_job_that_ends_while_the_exporter_is_down_ends_as_its_source_reports(play: Play) -> None:
    node = play(Job("1", T0 + 5, T0 + 50))
    node.cycles(T0 + 30)
    node.sleep(40)
    node.kill()

    node.cycles(T0 + 80)

    assert node.seconds()["1"] == pytest.approx(45.0, abs=NEAR)


def test_requeued_job_is_another_allocation(play: Play) -> None:
    node = play(Job("1", T0 + 5, T0 + 20.5, reports_end=False), Job("1", T0 + 21.5, T0 + 40, reports_end=False))

    node.cycles(T0 + 60)

    assert len({row["allocation"] for row in node.rows() if row["facts"]["owner"][5] == "1"}) == 2
    assert node.seconds()["1"] == pytest.approx(34.0, abs=1.0)


def test_allocation_ends_where_the_next_of_its_owner_begins(play: Play) -> None:
    """The source reports the requeue a moment late: the cycle at 20 s has still seen the run before."""
    node = play(Job("1", T0 + 5, T0 + 1e6))
    node.cycles(T0 + 20)
    node.jobs = (Job("1", T0 + 19.6, T0 + 40),)
    node.cycles(T0 + 60)

    known = {name: each for batch in node.batches for name, each in batch.allocations.items() if each.owner != NOBODY}
    assert [(each.start, each.end) for each in known.values()] == [(T0 + 5, T0 + 19.6), (T0 + 19.6, T0 + 40)]


def test_tracker_does_not_grow_with_jobs_that_ended(play: Play) -> None:
    """One of them stays: of its hours, only the last may still change."""
    length = 1.2 * DAY
    ended = [Job(str(number), T0 + number * length, T0 + (number + 0.5) * length) for number in range(40)]
    node = play(Job("stays", T0, T0 + 1e9, ("GPU-1",)), *ended, all_gpus=("GPU-0", "GPU-1"))

    def next_round(_: int) -> None:
        for _ in range(4):
            node.cycle(length / 4, write=False)

    assert grown(node._tracker, next_round) == {}


def test_source_that_was_silent_reports_the_same_allocation(play: Play) -> None:
    node = play(Job("1", T0 + 5, T0 + 40, reports_end=False))
    node.cycles(T0 + 20)
    node.jobs, jobs = (), node.jobs
    node.cycles(T0 + 25)
    node.jobs = jobs
    node.cycles(T0 + 60)

    assert len({row["allocation"] for row in node.rows() if row["facts"]["owner"][5] == "1"}) == 1
    assert node.seconds()["1"] == pytest.approx(35.0, abs=0.6)


def test_start_that_is_reported_late_belongs_to_the_same_allocation(play: Play) -> None:
    node = play(Job("1", T0 + 5, T0 + 40, reports_start=False))
    node.cycles(T0 + 20)
    node.jobs = (Job("1", T0 + 5, T0 + 40),)
    node.cycles(T0 + 60)

    known = {name: each for batch in node.batches for name, each in batch.allocations.items() if each.owner != NOBODY}
    assert [(each.reported_start, each.end) for each in known.values()] == [(T0 + 5, T0 + 40)]


def test_new_store_counts_nothing_from_before_its_birth(play: Play) -> None:
    node = play(Job("1", T0 - 86400, T0 + 30))

    node.cycles(T0 + 60)

    assert node.seconds()["1"] == pytest.approx(30.0, abs=NEAR)


def test_program_without_a_reported_start_is_not_billed_for_its_absence(play: Play) -> None:
    runs = [Job("1", T0 + 5, T0 + 15, reports_start=False), Job("1", T0 + 65, T0 + 75, reports_start=False)]
    node = play(*(Job(each.id, each.start, each.end, reports_start=False, reports_end=False) for each in runs))

    node.cycles(T0 + 100)

    assert node.seconds()["1"] == pytest.approx(20.0, abs=1.0)


def test_wall_clock_that_is_set_back_takes_nothing_back(play: Play) -> None:
    """Seconds are counted by the monotonic clock."""
    node = play(Job("1", T0 + 5, T0 + 1e6, reports_start=False))
    node.cycles(T0 + 30)
    node.set_clock_back(20)
    node.cycles(T0 + 30)
    node.restart()

    assert node.counters()["vision"] == pytest.approx(25.0 + 20.0, abs=1.0)


def test_free_time_never_falls_where_the_clock_is_set_back_while_a_job_runs(play: Play) -> None:
    node = play(Job("1", T0 + 50, T0 + 1e6, reports_start=False))
    node.cycles(T0 + 100)
    before = node.counters()[""]

    node.set_clock_back(80)  # to before the job: the GPU is free again
    node.cycles(T0 + 40)
    node.restart()

    assert (before, node.counters()[""]) == (pytest.approx(50.0, abs=2.1), pytest.approx(70.0, abs=2.1))


def test_clock_that_was_hours_ahead_takes_nothing_from_the_hour_it_is_set_back_to(play: Play) -> None:
    """The rows of an hour are final once it is over. What comes later in it is another allocation."""
    node = play(Job("1", T0 + 5, T0 + 1e6))
    node.cycles(T0 + 35)

    node.set_clock_back(-7200)
    node.cycles(T0 + 7200 + 65)
    node.set_clock_back(7200)
    node.cycles(T0 + 95)
    node.restart()

    assert node.seconds()["1"] == pytest.approx(90.0, abs=1.1)
    assert len({row["allocation"] for row in node.rows() if row["facts"]["owner"][5] == "1"}) == 2


def test_free_time_is_kept_without_an_owner(play: Play) -> None:
    node = play(Job("1", T0 + 10, T0 + 20))

    node.cycles(T0 + 60)

    assert sum(node.counters().values()) == pytest.approx(60.0, abs=1.1)


def test_allocation_has_all_that_is_known_of_it_and_its_counters_its_labels() -> None:
    owner = Owner("slurm:12", "slurm", slurm_job="12", user="ada", account="vision", partition="gpu")
    info = WorkloadInfo(
        "7", "3", job_name="train", qos="high", part_of="slurm:7", pod_labels=(("app.io/Team", "x"), ("pool", "other"))
    )
    usage = (
        Usage(owner, "GPU-1", "1g.10gb", {"computing": 0.25, "idle": 0.25}, 0.5, 30.0),
        Usage(owner, "GPU-0", "", {"computing": 1.0}, 2.0, 50.0),
    )
    ownership = Ownership(info={owner: info})
    now = Moment(UnixTime(T0 + 2), MonotonicTime(9.0))
    tracker = AllocationTracker(Stored("s", T0 - 60))
    batch = tracker.account_cycle(Cycle(now, 2.0, usage, {"GPU-0": "H100"}, ownership, {owner: "batch"}))

    assert batch is not None
    ((name, allocation),) = batch.allocations.items()
    assert (allocation.id, allocation.owner, allocation.start, allocation.end) == (name, owner, T0, None)
    assert (allocation.gpus, allocation.devices) == (1.5, ("GPU-0", "GPU-1"))
    assert allocation.details == {
        "job_name": "train", "priority": "high", "class": "batch", "part_of": "slurm:7", "array_job": "7",
        "array_task": "3", "label_app_io_team": "x", "label_pool": "other",
    }  # fmt: skip
    rows = {Place(row.key.model, row.key.profile): (row.until, row.amount) for row in batch.hours.values()}
    assert rows == {
        Place("", "1g.10gb"): (T0 + 2, Amount({"computing": 0.5, "idle": 0.5}, 0.5, 30.0)),
        Place("H100"): (T0 + 2, Amount({"computing": 2.0}, 2.0, 50.0)),
    }
    counters = [(*row.key, row.since, row.last, row.allocations) for row in batch.counters]
    labels = ("slurm", "", "vision", "ada", "high", "", "batch")
    assert counters == [
        (*labels, "", "1g.10gb", "gpu", T0 + 2, T0 + 2, 1),
        (*labels, "H100", "", "gpu", T0 + 2, T0 + 2, 0),
    ]


def schedule(seed: int) -> tuple[tuple[Job, ...], list[tuple[float, str]]]:
    """Jobs of 5 to 300 s on four GPUs, one after the other; and restarts of the exporter."""
    draw = random.Random(seed)  # noqa: S311 - a schedule
    jobs: list[Job] = []
    for gpu in range(4):
        now = T0 + draw.uniform(1, 50)
        while now < T0 + 900:
            length = draw.uniform(5, 300)
            jobs.append(Job(f"{gpu}{len(jobs)}", now, now + length, (f"GPU-{gpu}",), draw.choice(("vision", "speech"))))
            now += length + draw.uniform(2, 60)
    stops = [(draw.uniform(20, 1000), draw.choice(("kill", "restart"))) for _ in range(draw.randrange(5))]
    return tuple(jobs), sorted(stops)


@given(st.integers(0, 1 << 32))
@examples(15)
def test_every_job_has_its_gpu_seconds_through_restarts(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """The law of the accounting: rows sum to the truth for each job that was seen, and counters to the rows."""
    jobs, stops = schedule(seed)
    gpus = tuple(f"GPU-{number}" for number in range(4))
    node = Node(tmp_path_factory.mktemp("node") / "a.sqlite", jobs, T0, all_gpus=gpus)
    downs: list[tuple[float, float]] = []
    for at, how in stops:
        node.cycles(T0 + at)
        downs.append((node.now, node.now + 5.0))
        node.sleep(5.0)
        node.kill() if how == "kill" else node.restart()
    node.cycles(T0 + 1400)

    found, unseen = node.seconds(), {job.id for job in jobs if any(a <= job.start and job.end <= b for a, b in downs)}
    for job in jobs:
        if job.id not in unseen:
            assert found[job.id] == pytest.approx(job.gpu_seconds, abs=NEAR), job
    counted = node.counters()
    for account, seconds in by_account(job for job in jobs if job.id not in unseen).items():
        assert counted[account] == pytest.approx(seconds, abs=1e-3)
    node.close()
