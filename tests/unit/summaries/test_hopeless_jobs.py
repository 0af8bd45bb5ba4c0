"""Jobs of which there will never be a report take nobody else's from him."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.report.failure import NoMetricsError, RefusedError, ReportError, SlowError, UnreachableError
from exporter.summaries.store import MADE, NO_DATA, WAITING
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
