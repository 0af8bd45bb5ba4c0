"""Jobs of which there will never be a report take nobody else's from him."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tools.report.client import (
    NoMetricsError,
    RefusedError,
    ReportError,
    SeveralError,
    SlowError,
    UnreachableError,
)
from exporter.tools.report.model import JobReport
from exporter.tools.report.options import SummariesConfig
from exporter.tools.report.summaries.store import MADE, NO_DATA, WAITING
from exporter.tools.report.summaries.worker import Services, Worker
from tests.unit.summaries.test_worker import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


@pytest.mark.parametrize("hopeless", [1, 3, 20])
@pytest.mark.parametrize("error", [RefusedError("too many samples"), SlowError("timed out")])
def test_job_that_is_too_large_for_prometheus_holds_nobody_up(site: Site, error: ReportError, hopeless: int) -> None:
    for job in range(hopeless):
        site.ends(str(100 + job))
        site.fails[str(100 + job)] = error
        site.ends(str(200 + job))
    for _ in range(30):
        site.round()

    assert site.store.counts() == {MADE: hopeless, WAITING: hopeless}
    site.ends("300")
    site.round()
    assert site.comments[-1][0] == "300_1"


def test_jobs_from_before_the_first_metrics_are_given_up(site: Site) -> None:
    """As in the first round where all is new, which takes a day's jobs from slurmdbd."""
    for job in range(60):
        site.ends(str(100 + job), noted=False)
        site.fails[str(100 + job)] = NoMetricsError("no metrics of gpu-exporter")
    site.ends("300", noted=False)
    site.round()
    assert [name for name, _ in site.comments] == ["300_1"]
    for _ in range(10):
        site.round()

    assert site.store.counts() == {NO_DATA: 60, MADE: 1}


def test_no_job_is_given_up_while_prometheus_has_no_metrics_at_all(site: Site) -> None:
    site.measured = False
    site.ends("11")
    site.fails["11"] = NoMetricsError("no metrics of gpu-exporter")
    for _ in range(10):
        site.round()

    assert site.store.counts() == {WAITING: 1}
    site.fails.clear()
    site.round(900)
    assert site.store.counts() == {MADE: 1}


def test_prometheus_that_is_away_is_asked_once_a_round_and_no_job_waits_longer_for_it(site: Site) -> None:
    for job in range(40):
        site.ends(str(100 + job))
        site.fails[str(100 + job)] = UnreachableError("away")
    outcomes = [site.round() for _ in range(5)]
    assert [(outcome.postponed, len(outcome.errors)) for outcome in outcomes] == [(40, 1)] * 5
    assert site.asked.total() == 5
    site.fails.clear()

    assert site.round().made >= 35


class Killed(BaseException):
    """What ends the process in the middle of a job: systemd's time limit, or the memory's."""


def test_job_at_which_the_worker_is_killed_is_not_the_first_of_the_next_round_too(site: Site) -> None:
    site.ends("11")
    site.ends("12")
    asked = site.report

    def killed(job: str, back: float, until: float) -> JobReport:
        if job == "11":
            raise Killed
        return asked(job, back, until)

    services = Services(site, killed, site.write, str, bool)
    site.worker = Worker(SummariesConfig(state_dir=site.spool.parent), site.store, services, lambda: site.now)
    with pytest.raises(Killed):
        site.round()
    site.round(1)

    assert [name for name, _ in site.comments] == ["12_1"]


def test_job_whose_id_two_clusters_have_waits_until_one_is_named(site: Site) -> None:
    """It was given up without a word, as one of which nothing is known."""
    for job in ("11", "12", "13"):
        site.ends(job)
        site.fails[job] = SeveralError("name one by --cluster")
    site.ends("14")
    outcome = site.round()
    for _ in range(5):
        site.round(900)

    assert (outcome.made, list(outcome.errors)) == (1, ["name one by --cluster"])
    assert site.store.counts() == {MADE: 1, WAITING: 3}
