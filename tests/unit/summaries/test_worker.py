"""Rounds of the worker: every ended job gets one summary, whatever is away meanwhile."""

from __future__ import annotations

import os
import pwd
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.config.option import ConfigError
from exporter.tools.report.accounting.sacct import AccountedJob, SacctError
from exporter.tools.report.client import NoDataError, ReportError, UnreachableError
from exporter.tools.report.model import JobReport
from exporter.tools.report.options import SummariesConfig
from exporter.tools.report.summaries.command import exact
from exporter.tools.report.summaries.jobstats import CommentError
from exporter.tools.report.summaries.store import MADE, NO_DATA, NO_GPUS, WAITING, Store
from exporter.tools.report.summaries.worker import Outcome, Services, Worker
from exporter.tools.report.summary import MARGIN_SECONDS
from tests.unit.summaries.reports import JOB, report

START = 1_000_000.0


class Site:
    """A controller: its spool, slurmdbd, Prometheus and the comments that were written, each of which may be away."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self.spool = folder / "ended"
        self.spool.mkdir()
        self.hints = folder / "hints"
        self.store = Store(folder / "summaries.sqlite")
        self.known: dict[str, AccountedJob] = {}
        self.without_data: set[str] = set()
        self.fails: dict[str, ReportError] = {}
        self.measured = True
        self.away: set[str] = set()
        self.comments: list[tuple[str, str]] = []
        self.asked: Counter[str] = Counter()
        self.spans: list[tuple[float, float]] = []
        self.worker = self.made(self)

    def made(self, accounts: Site | None, comment: str = "jobstats") -> Worker:
        settings = SummariesConfig(state_dir=self.spool.parent, comment=comment)
        services = Services(accounts, self.report, self.write, lambda job: f"name-of-{job}", lambda: self.measured)
        return Worker(settings, self.store, services, lambda: self.now)

    def ends(self, job: str, *, gpus: float = 1.0, noted: bool = True) -> None:
        self.known[job] = replace(JOB, raw_id=job, name=f"{job}_1", gpus=gpus, start=self.now - 60, end=self.now)
        if noted:
            self.note(job)

    def note(self, job: str) -> None:
        (self.spool / job).touch()
        os.utime(self.spool / job, (self.now, self.now))

    def round(self, after: float = 60.0) -> Outcome:
        self.now += after
        return self.worker.round()

    def jobs(self, raw_ids: Sequence[str]) -> Mapping[str, AccountedJob]:
        self._need("slurmdbd", SacctError)
        return {job: self.known[job] for job in raw_ids if job in self.known}

    def ended(self, since: float, until: float) -> Sequence[AccountedJob]:
        self._need("slurmdbd", SacctError)
        return [job for job in self.known.values() if job.end is not None and since <= job.end <= until]

    def report(self, job: str, back: float, until: float) -> JobReport:
        assert until <= self.now
        assert back > 0
        self._need("prometheus", UnreachableError)
        self.asked[job] += 1
        self.spans.append((back, until))
        if job in self.fails:
            raise self.fails[job]
        if job in self.without_data:
            raise NoDataError("unknown here")
        return report()

    def write(self, name: str, comment: str, plain: str) -> None:
        assert plain.startswith("GPU 38 % used")
        self._need("sacctmgr", CommentError)
        self.comments.append((name, comment))

    def _need(self, who: str, error: Callable[[str], Exception]) -> None:
        if who in self.away:
            raise error(f"{who} is away")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


def test_ended_job_has_one_summary_by_the_name_of_its_element(site: Site) -> None:
    site.ends("11")
    outcomes = [site.round(), site.round(), site.round(600)]

    assert [outcome.made for outcome in outcomes] == [1, 0, 0]
    assert [name for name, _ in site.comments] == ["11_1"]
    assert site.comments[0][1].startswith("JS1:")
    assert list(site.spool.iterdir()) == []
    (summary,) = site.store.summaries("alice", 0)
    assert (summary["job"], summary["utilization"], summary["slurm"]["state"]) == ("11_1", 0.375, "COMPLETED")


def test_job_settles_before_it_is_looked_at(site: Site) -> None:
    site.ends("11")

    assert site.round(10).made == 0
    assert site.round(21).made == 1


def test_report_is_of_the_job_with_some_minutes_around_it(site: Site) -> None:
    site.ends("11")
    site.round(after=7200.0)

    assert site.spans == [(60.0 + 2 * MARGIN_SECONDS, START + MARGIN_SECONDS)]


def test_jobs_that_are_passed_over_are_counted(site: Site) -> None:
    for job in ("11", "12", "13"):
        site.ends(job, gpus=0.0)

    assert site.round().skipped == 3


def test_job_without_gpus_asks_prometheus_nothing(site: Site) -> None:
    site.ends("11", gpus=0)
    site.round()

    assert (site.asked.total(), site.comments, site.store.counts()) == (0, [], {NO_GPUS: 1})


def test_end_that_the_hook_missed_is_found_in_slurmdbd(site: Site) -> None:
    site.ends("11", noted=False)
    site.ends("12", noted=False, gpus=0)
    site.round()

    assert site.store.counts() == {MADE: 1}
    site.ends("13", noted=False)
    site.round(600)
    assert [name for name, _ in site.comments] == ["11_1", "13_1"]


@pytest.mark.parametrize("who", ["slurmdbd", "prometheus", "sacctmgr"])
def test_nothing_is_lost_or_made_twice_while_somebody_is_away_for_an_hour(site: Site, who: str) -> None:
    site.away = {who}
    errors: set[str] = set()
    for minute in range(60):
        if minute % 10 == 0:
            site.ends(str(100 + minute))
        errors |= site.round().errors.keys()
    assert errors == {f"{who} is away"}
    assert site.comments == []
    site.away = set()
    for _ in range(20):
        site.round()

    assert Counter(name for name, _ in site.comments) == Counter(f"{100 + minute}_1" for minute in range(0, 60, 10))
    assert site.store.counts() == {MADE: 6}


def test_away_prometheus_is_asked_once_a_round(site: Site) -> None:
    site.away = {"prometheus"}
    for job in range(40):
        site.ends(str(100 + job))
    outcome = site.round()

    assert (outcome.postponed, len(outcome.errors)) == (40, 1)


def test_job_of_which_no_metrics_come_is_given_up(site: Site) -> None:
    site.ends("11")
    site.without_data = {"11"}
    for _ in range(10):
        site.round(300)

    site.note("11")  # the hook ran once more, soon after the end: the job was given up later than that
    os.utime(site.spool / "11", (START + 10, START + 10))
    site.round(300)

    assert site.asked["11"] == 3
    assert site.store.counts() == {NO_DATA: 1}


def test_requeued_job_has_its_summary_made_anew_when_it_ends_again(site: Site) -> None:
    site.ends("11")
    site.round()
    site.note("11")  # the same end again: the hook ran twice, or the round was killed before it took the note away
    os.utime(site.spool / "11", (START, START))
    site.round()
    assert len(site.comments) == 1
    site.ends("11")
    site.round()

    assert len(site.comments) == 2
    assert len(site.store.summaries("", 0)) == 1


@pytest.mark.parametrize("gpus", [1.0, 0.0])
def test_job_that_slurmdbd_has_not_seen_end_waits_until_it_has(site: Site, gpus: float) -> None:
    site.ends("11")
    ended = site.known["11"]
    site.known["11"] = replace(ended, state="RUNNING", end=None, gpus=gpus)  # or not even begin
    site.ends("12")
    del site.known["12"]
    outcome = site.round()
    assert (outcome.made, outcome.postponed, site.comments) == (0, 2, [])

    site.known |= {"11": ended, "12": replace(ended, raw_id="12", name="12_1")}
    for _ in range(4):
        site.round()

    assert {name for name, _ in site.comments} == {"11_1", "12_1"}
    assert {each["slurm"]["state"] for each in site.store.summaries("", 0)} == {"COMPLETED"}


def test_job_that_slurmdbd_never_sees_end_has_its_summary_after_an_hour(site: Site) -> None:
    site.ends("11")
    site.known["11"] = replace(site.known["11"], state="RUNNING", end=None, start=site.now + 1000)  # begun anew
    for _ in range(70):
        site.round()

    assert site.store.counts() == {MADE: 1}


def test_round_ends_with_its_budget_and_the_next_goes_on(site: Site) -> None:
    for job in range(100):
        site.ends(str(100 + job))
    slow = site.report

    def report_slowly(job: str, back: float, until: float) -> JobReport:
        site.now += 1.0
        return slow(job, back, until)

    site.worker = Worker(
        SummariesConfig(state_dir=site.spool.parent),
        site.store,
        Services(site, report_slowly, site.write, str, bool),
        lambda: site.now,
    )
    outcomes = [site.round() for _ in range(3)]

    assert [outcome.made for outcome in outcomes] == [50, 50, 0]
    assert len({name for name, _ in site.comments}) == 100


def test_without_slurmdbd_summaries_are_kept_and_no_comment_is_written(site: Site) -> None:
    """Slurmctld tells the name of an element, and takes no comment for a job that is over."""
    site.worker = site.made(None, "short")
    site.note("11")
    site.note("12")
    site.without_data = {"12"}
    site.round()

    assert site.comments == []
    assert [summary["job"] for summary in site.store.summaries("", 0)] == ["name-of-11"]
    assert site.store.counts() == {MADE: 1, NO_GPUS: 1}


def test_spool_holds_nothing_but_ids(site: Site) -> None:
    for name in ("../x", "7;rm", "x" * 50, "٣"):
        (site.spool / name.replace("/", "_")).touch()
    (site.spool / "8").symlink_to("/etc/passwd")
    (site.spool / "9").mkdir()
    site.round()

    assert site.store.counts() == {}


def test_old_jobs_are_forgotten(site: Site) -> None:
    site.ends("11")
    site.round()
    site.known.clear()
    site.round(91 * 86400.0)

    assert site.store.counts() == {}
    assert WAITING not in site.store.counts()


def test_round_leaves_hints_for_the_next_jobs_and_goes_on_where_it_cannot(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = pwd.struct_passwd(("alice", "x", 1000, 1000, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: alice)
    site.ends("7")
    site.round()
    site.hints.rename(site.hints.with_name("kept"))
    site.hints.touch()
    site.ends("8")
    outcome = site.round()

    assert (site.hints.with_name("kept") / "1000").read_text().startswith("train\tthe last such job, 7_1, used 38 %")
    assert outcome.made == 1
    assert [error for error in outcome.errors if "hints" in error]


def test_database_of_the_accounting_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    """The unit's user may not enter the folder of a service with DynamicUser."""
    made = exact(tmp_path / "private/accounting.sqlite", lambda _job, _back, _until: report())

    with pytest.raises(ConfigError, match=r"--accounting\.database .*/private/accounting\.sqlite: unable to open"):
        made("7", 60.0, START)


@pytest.mark.parametrize("call", ["unlink", "scandir"])
def test_spool_of_another_user_costs_no_summary(site: Site, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The worker may not remove what it finds there, or not even look: so it is after a change of SlurmUser."""

    def refused(*_: object, **_more: object) -> None:
        raise PermissionError(13, "Permission denied")

    site.ends("11")
    monkeypatch.setattr(*((Path, "unlink", refused) if call == "unlink" else (os, "scandir", refused)))
    outcomes = [site.round(), site.round()]

    assert [outcome.made for outcome in outcomes] == [1, 0]
    assert list(outcomes[1].errors) == [f"{site.spool}: Permission denied"]
