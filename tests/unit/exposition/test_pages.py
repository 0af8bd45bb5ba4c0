"""Pages: rendered once a snapshot and form, ahead of the scrapes that are expected, and dropped with their snapshot."""

from __future__ import annotations

import gzip
import math
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.clock import MonotonicTime
from exporter.exposition.pages import PageStore
from exporter.exposition.scrape_schedule import Scraper, ScrapeSchedule
from exporter.exposition.snapshot import AnyBlock, Block, Snapshot
from exporter.metrics.family import Family, Type, Unit, one

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PROMETHEUS = Scraper("10.0.0.1 Prometheus", OPENMETRICS, gzip=True)
CURL = Scraper("10.0.0.2 curl")
VALUE: Family[object] = Family(
    name="gpu_value", help="A test.", type=Type.GAUGE, unit=Unit.NONE, samples=lambda _: (), prefix=()
)


class Passes:
    """Snapshots with a number in them, which count how often they were rendered."""

    def __init__(self) -> None:
        self.rendered: list[float] = []

    def snapshot(self, number: float) -> Snapshot:
        def series() -> Iterator[AnyBlock]:
            self.rendered.append(number)
            yield Block(VALUE, (), one(number))

        return Snapshot(series=series)


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def store(clock: list[float]) -> PageStore:
    return PageStore(1.0, clock=lambda: clock[0])


def test_page_is_that_of_the_last_snapshot_in_the_form_asked_for(store: PageStore) -> None:
    passes = Passes()
    for number in (1, 2):
        store.publish(passes.snapshot(number))

    packed, plain = store.page(PROMETHEUS), store.page(CURL)

    assert (packed.gzip, plain.gzip) == (True, False)
    assert packed.content_type.startswith("application/openmetrics-text")
    assert plain.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert b"\ngpu_value 2.0\n" in gzip.decompress(packed.body)
    assert b"\ngpu_value 2.0\n" in plain.body


def test_page_is_rendered_once_however_many_ask(store: PageStore) -> None:
    passes = Passes()
    store.publish(passes.snapshot(1))

    pages = [store.page(Scraper(f"client {number}")) for number in range(5)]

    assert passes.rendered == [1]
    assert all(page is pages[0] for page in pages)


def test_page_that_is_made_is_there_for_who_asks_next(store: PageStore) -> None:
    passes = Passes()
    store.publish(passes.snapshot(1))
    assert store.kept(CURL) is None

    page = store.page(CURL)

    assert store.kept(CURL) is page


def test_nothing_is_rendered_for_nobody(store: PageStore) -> None:
    passes = Passes()
    for number in range(10):
        store.publish(passes.snapshot(number))

    assert passes.rendered == []


def test_pages_of_several_scrapers_wait_for_them(store: PageStore, clock: list[float]) -> None:
    passes = Passes()
    ahead: dict[int, list[float]] = {}
    for second in range(61):
        clock[0] = float(second)
        before = len(passes.rendered)
        store.publish(passes.snapshot(second))
        ahead[second] = passes.rendered[before:]
        for scraper, every, offset in ((PROMETHEUS, 15, 0.4), (CURL, 20, 0.7)):
            if second % every == 0:
                clock[0] = second + offset
                store.page(scraper)

    rendered_ahead = [second for second, made in ahead.items() if made]
    assert rendered_ahead == [30, 40, 45, 60]
    assert passes.rendered == [0, 0, 15, 20, 30, 40, 45, 60, 60]  # two forms, where both ask at once


def test_scrape_is_answered_from_the_snapshot_before_while_the_next_page_is_made(
    store: PageStore, clock: list[float]
) -> None:
    entered, release = threading.Event(), threading.Event()

    def series() -> Iterator[AnyBlock]:
        entered.set()
        assert release.wait(10)
        yield Block(VALUE, (), one(2))

    store.publish(Passes().snapshot(1))
    for moment in (0.0, 1.0):
        clock[0] = moment
        store.page(CURL)
    publishing = threading.Thread(target=store.publish, args=(Snapshot(series=series),))
    publishing.start()
    assert entered.wait(10)

    assert b"\ngpu_value 1.0\n" in store.page(CURL).body
    release.set()
    publishing.join(10)
    assert b"\ngpu_value 2.0\n" in store.page(CURL).body


def test_forms_without_end_do_not_fill_the_memory(store: PageStore) -> None:
    store.publish(Passes().snapshot(1))

    for number in range(100):
        store.page(Scraper("x", f"application/openmetrics-text;version=1.{number}.0"))

    assert len(store._current.kept) <= 8


def test_scrapers_without_end_are_forgotten() -> None:
    schedule = ScrapeSchedule()
    for _ in range(2):
        for number in range(1000):
            schedule.scraped(Scraper(str(number)), float(number))

    assert schedule.expected(0.0, 1e9) == ()
    assert len(schedule._seen) == 16


def test_pass_is_awaited_by_scrapers_that_are_due_and_by_none_else(store: PageStore, clock: list[float]) -> None:
    assert store.awaited() == math.inf
    for clock[0] in (100.0, 115.0):
        store.page(PROMETHEUS)
    awaited = [store.awaited() for clock[0] in (116.0, 129.0, 130.0, 130.05, 130.2)]

    assert awaited == [14.0, 1.0, 0.0, 0.0, math.inf]


def test_of_several_scrapers_the_first_is_awaited(store: PageStore, clock: list[float]) -> None:
    for clock[0] in (100.0, 115.0):
        store.page(PROMETHEUS)
    for clock[0] in (116.0, 126.0):
        store.page(CURL)

    assert store.awaited() == 4.0
    clock[0] = 131.0
    assert store.awaited() == 5.0


def test_pass_is_awaited_while_somebody_looks_who_keeps_no_pace(store: PageStore, clock: list[float]) -> None:
    clock[0] = 100.0
    store.watched()
    assert [store.awaited() for clock[0] in (100.5, 109.5, 110.5)] == [0.0, 0.0, math.inf]

    store.page(CURL)
    assert [store.awaited() for clock[0] in (111.0, 120.0, 121.0)] == [0.0, 0.0, math.inf]


class Renewed:
    """A store whose snapshots are numbered, and made when somebody is to see one of now."""

    def __init__(self, clock: list[float]) -> None:
        self._clock = clock
        self.passes = Passes()
        self.number = 0
        self.awaited: list[float] = []
        self.store = PageStore(1.0, clock=lambda: MonotonicTime(clock[0]))
        self.store.renewed_by(self.publish)

    def publish(self) -> None:
        self.number += 1
        self.awaited.append(self.store.awaited())
        self.store.publish(replace(self.passes.snapshot(self.number), monotonic=MonotonicTime(self._clock[0])))

    def seen(self, scraper: Scraper = CURL) -> int:
        page = self.store.kept(scraper) or self.store.page(scraper)
        return int(float(page.body.decode().split("gpu_value ")[-1].split()[0]))


def test_who_was_not_expected_sees_what_is_now(clock: list[float]) -> None:
    renewed = Renewed(clock)
    clock[0] = 100.0
    renewed.publish()
    seen = {}
    for clock[0] in (100.0, 102.5, 102.6, 103.0, 110.0):
        seen[clock[0]] = renewed.seen()

    assert seen == {100.0: 1, 102.5: 1, 102.6: 2, 103.0: 2, 110.0: 3}


def test_a_pass_is_awaited_by_who_was_not_expected_and_by_nobody_afterwards(clock: list[float]) -> None:
    renewed = Renewed(clock)
    renewed.publish()
    for clock[0] in (20.0, 60.0):  # a minute is the interval from now on
        renewed.seen()
    clock[0] = 87.0
    before, renewed.awaited = renewed.store.awaited(), []
    renewed.seen()

    assert (before, renewed.awaited, renewed.store.awaited()) == (13.0, [0.0], 27.0)


def test_status_page_is_of_now_as_well(clock: list[float]) -> None:
    renewed = Renewed(clock)
    renewed.publish()
    for clock[0] in (2.0, 3.0):
        renewed.store.watched()

    assert renewed.number == 2


def test_before_the_first_pass_nobody_waits_for_one(clock: list[float]) -> None:
    renewed = Renewed(clock)

    assert b"gpu_value" not in renewed.store.page(CURL).body
    assert renewed.number == 0


def test_a_pass_that_fails_is_awaited_no_longer(clock: list[float]) -> None:
    renewed = Renewed(clock)
    renewed.publish()
    clock[0] = 60.0
    renewed.store.renewed_by(lambda: (_ for _ in ()).throw(RuntimeError("broken")))
    with pytest.raises(RuntimeError, match="broken"):
        renewed.store.watched()
    clock[0] = 90.0

    assert renewed.store.awaited() == math.inf
