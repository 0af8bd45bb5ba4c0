"""When a round asks for what, and how far it goes before the next one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.tools.report.client import RefusedError, UnreachableError
from exporter.tools.report.model import JobReport
from tests.unit.summaries.test_worker import START, Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


def test_end_that_slurmdbd_heard_of_late_is_found_in_a_later_round(site: Site) -> None:
    """It was in a queue of slurmctld's: each round looks some minutes further back than the one before it came."""
    site.round()
    site.round(500)
    site.ends("11", noted=False)
    late = site.known.pop("11")
    site.round(100)
    site.known["11"] = late
    site.round(600)

    assert [name for name, _ in site.comments] == ["11_1"]


def test_slurmdbd_is_asked_for_all_that_ended_only_now_and_then(site: Site) -> None:
    asked: list[tuple[float, float]] = []
    site.ended = lambda since, until: asked.append((since, until)) or []  # type: ignore[method-assign,func-returns-value]
    for _ in range(22):
        site.round(60)

    assert asked == [(at - back, at) for at, back in ((START + 60, 86400), (START + 660, 1200), (START + 1260, 1200))]


def test_what_fails_is_tried_less_and_less_often(site: Site) -> None:
    site.ends("11")
    site.fails["11"] = UnreachableError("away")
    tried: list[float] = []
    for _ in range(120):
        before = site.asked["11"]
        site.round(60)
        if site.asked["11"] > before:
            tried.append((site.now - START) / 60)

    assert [later - sooner for sooner, later in pairwise(tried)][:7] == [1, 2, 4, 8, 15, 15, 15]


def test_round_ends_within_a_batch_when_its_time_is_over(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = site.report

    def slow(job: str, back: float, until: float) -> JobReport:
        site.now += 20
        return quick(job, back, until)

    monkeypatch.setattr(site, "report", slow)
    site.worker = site.made(site)
    for job in map(str, range(11, 21)):
        site.ends(job)

    assert site.round().made == 3
    assert site.round().made == 3


def test_prometheus_that_refuses_a_second_job_is_not_asked_for_the_others(site: Site) -> None:
    """One may be too large; two are a Prometheus that refuses everything."""
    for job in ("11", "12", "13"):
        site.ends(job)
        site.now += 1
    site.fails |= {job: RefusedError("too many samples") for job in ("11", "12")}
    outcome = site.round()

    assert (site.asked["11"], site.asked["12"], site.asked["13"]) == (1, 1, 0)
    assert (outcome.made, outcome.postponed) == (0, 3)
    assert site.round().made == 1
