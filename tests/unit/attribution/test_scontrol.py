"""Asking slurmctld about each new job once, whatever becomes of the question."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.scontrol import FORGET_SECONDS, RETURN_SECONDS, UNKNOWN_SECONDS, JobCache, show_job
from tests.attribution_kit.nodes import until


class Controller:
    """A slurmctld that knows some jobs, and may be down."""

    def __init__(self, *jobs: str) -> None:
        self.known = set(jobs)
        self.down = False
        self.asked: list[str] = []

    def __call__(self, job: str) -> Job | None:
        self.asked.append(job)
        if self.down:
            raise SourceError("no answer")
        return Job(job, user="alice") if job in self.known else None


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def book(controller: Controller, clock: Callable[[], float]) -> JobCache:
    return JobCache(controller, clock=clock)


def settle(jobs: JobCache) -> None:
    while jobs._wanted and jobs.answer_next():
        pass


def test_new_job_is_asked_about_once() -> None:
    controller, clock = Controller("1", "2"), Clock()
    jobs = book(controller, clock)
    for _ in range(5):
        clock.now += 1
        jobs.want({"1", "2"})
        settle(jobs)

    assert sorted(controller.asked) == ["1", "2"]
    assert set(jobs.jobs) == {"1", "2"}


def test_question_is_pending_until_it_is_answered() -> None:
    jobs = book(Controller("1"), Clock())
    jobs.want({"1"})
    before = jobs.pending("1")
    settle(jobs)

    assert (before, jobs.pending("1")) == (True, False)


def test_job_that_slurmctld_does_not_know_is_asked_about_again_later() -> None:
    controller, clock = Controller(), Clock()
    jobs = book(controller, clock)
    jobs.want({"1"})
    settle(jobs)
    clock.now += 1
    jobs.want({"1"})
    settle(jobs)
    soon = list(controller.asked)
    clock.now += UNKNOWN_SECONDS
    jobs.want({"1"})
    settle(jobs)

    assert soon == ["1"]
    assert controller.asked == ["1", "1"]


def test_requeued_job_is_asked_about_anew() -> None:
    controller, clock = Controller("1"), Clock()
    jobs = book(controller, clock)
    jobs.want({"1"})
    settle(jobs)
    clock.now += RETURN_SECONDS + 1
    jobs.want({"1"})

    assert jobs.pending("1")
    assert "1" in jobs.jobs


def test_slurmctld_that_is_down_leaves_what_is_known_and_the_question_open() -> None:
    controller, clock = Controller("1", "2"), Clock()
    jobs = book(controller, clock)
    jobs.want({"1"})
    settle(jobs)
    controller.down = True
    clock.now += 1
    jobs.want({"1", "2"})
    jobs.answer_next()
    clock.now += 7

    health = jobs.health(clock.now)
    assert (health.success, health.age) == (False, 7)
    assert set(jobs.jobs) == {"1"}
    assert jobs.pending("2")


def test_one_bad_job_does_not_keep_the_others_waiting() -> None:
    def ask(job: str) -> Job | None:
        if job == "1":
            raise SourceError("cannot")
        return Job(job)

    jobs = JobCache(ask, clock=Clock())
    jobs.want(["1"])
    jobs.want(["2"])
    jobs.answer_next()
    jobs.answer_next()

    assert set(jobs.jobs) == {"2"}


def test_jobs_long_gone_are_forgotten() -> None:
    clock = Clock()
    jobs = book(Controller("1", "2"), clock)
    jobs.want({"1"})
    settle(jobs)
    clock.now += FORGET_SECONDS + 1
    jobs.want({"2"})
    settle(jobs)

    assert set(jobs.jobs) == {"2"}
    assert set(jobs._seen) == {"2"}


def test_thread_asks_when_a_job_comes() -> None:
    controller = Controller("1", "2")
    jobs = JobCache(controller)
    jobs.start()
    jobs.want({"1"})
    until(lambda: "1" in jobs.jobs)
    jobs.want({"2"})
    until(lambda: "2" in jobs.jobs)
    jobs.stop()

    assert controller.asked == ["1", "2"]


def script(folder: Path, body: str) -> str:
    file = folder / "scontrol"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


ANSWER = "JobId={} JobName=x UserId=alice(1) GroupId=a(1) Account=physics Partition=gpu Command=x"


def test_command_is_asked_for_one_job_on_one_line(tmp_path: Path) -> None:
    command = script(tmp_path, f'[ "$*" = "-o -d show job 7" ] && echo "{ANSWER.format(7)}"')

    assert show_job(command, "7") == Job("7", "alice", "physics", "gpu", "x")


def test_id_that_is_also_an_arrays_is_the_element(tmp_path: Path) -> None:
    command = script(tmp_path, f'echo "{ANSWER.format(8)}"; echo "{ANSWER.format(7)}"')

    found = show_job(command, "7")
    assert found is not None
    assert found.id == "7"


def test_invalid_job_is_unknown_and_not_a_failure(tmp_path: Path) -> None:
    command = script(tmp_path, 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')

    assert show_job(command, "7") is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1', "Unable to contact"),
        ("exec sleep 20", "no answer within 0.3 s"),
    ],
)
def test_command_that_fails_or_hangs_is_an_error(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        show_job(script(tmp_path, body), "7", timeout=0.3)


def test_missing_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="scontrol"):
        show_job(str(tmp_path / "scontrol"), "7")
