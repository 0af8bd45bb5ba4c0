"""Asking slurmctld about each new job once, whatever becomes of the question."""

from __future__ import annotations

from collections.abc import Callable

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job
from exporter.attribution.slurm.scontrol import FORGET_SECONDS, RETURN_SECONDS, UNKNOWN_SECONDS, JobCache
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


def test_answer_that_nobody_thought_of_does_not_end_the_asking() -> None:
    def ask(job: str) -> Job | None:
        if job == "1":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        return Job(job)

    jobs = JobCache(ask, pause=0.0)
    jobs.start()
    jobs.want(["1"])
    jobs.want(["2"])
    until(lambda: "2" in jobs.jobs)
    jobs.stop()

    assert not jobs.health(2000.0).success or jobs.pending("1")


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


def test_job_that_is_back_has_no_answer_of_its_life_before() -> None:
    """Its old start would join both lives, and the time between them would be allocated."""
    controller, clock = Controller("1"), Clock()
    jobs = book(controller, clock)
    jobs.want({"1"})
    settle(jobs)
    clock.now += RETURN_SECONDS + 1
    jobs.want({"1"})
    before = dict(jobs.jobs)
    settle(jobs)

    assert before == {}
    assert set(jobs.jobs) == {"1"}
    assert controller.asked == ["1", "1"]
