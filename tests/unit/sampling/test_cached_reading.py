"""What is published between cycles: counters never go back, gauges only while fresh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.base import Collector, Fields, Pace, Paced
from exporter.collectors.ecc import ECC, Ecc
from exporter.collectors.nvlink import NVLINK, Nvlink
from exporter.collectors.pcie import PCIE, Pcie, Slower
from exporter.core.counters import NO_COUNTS, count, published
from exporter.core.families import Sample, Unit, counter, gauge
from exporter.sampling.blocks import collector_statuses, device_blocks, node_blocks
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import CachedReading, is_fresh, next_reading, read_gpu
from exporter.sampling.snapshot import NodeStatus
from exporter.tools.simulator import SimulatedDriver, parse

NO_FIELDS = Fields((), {}, 0.0)


def collector(pace: Pace) -> Collector[object]:
    return Collector(name="test", help="A test.", pace=pace, read=lambda *_: None, families=())


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e12), max_size=3), max_size=20))
def test_published_counter_never_goes_back_and_no_label_vanishes(raw: list[dict[str, float]]) -> None:
    counts = NO_COUNTS
    shown: dict[tuple[str, ...], float] = {}
    for step in raw:
        counts = count(counts, {(kind,): value for kind, value in step.items()})
        now = {labels: value for value, labels in published(counts)}
        assert set(shown) <= set(now)
        assert all(now[labels] >= value for labels, value in shown.items())
        shown = now


def test_counter_of_a_reloaded_driver_goes_on_from_where_it_was() -> None:
    before = count(NO_COUNTS, {("a",): 100.0})
    after = count(before, {("a",): 7.0})
    later = count(after, {("a",): 9.0})

    assert [published(each).values for each in (before, after, later)] == [(100.0,), (107.0,), (109.0,)]


def test_first_value_is_the_sources_own() -> None:
    assert list(published(count(NO_COUNTS, {("a",): 42.0}))) == [Sample(42.0, ("a",))]


def test_gauge_is_fresh_for_its_pace_and_gone_when_the_device_is_silent() -> None:
    slow = CachedReading(collector(Pace.SLOW), None, 100.0)

    assert is_fresh(slow, monotonic=140.0, answered=139.0, stale=10.0)
    assert not is_fresh(slow, monotonic=140.0, answered=120.0, stale=10.0)
    assert not is_fresh(slow, monotonic=180.0, answered=179.0, stale=10.0)


def test_what_is_read_once_stays_while_the_device_answers() -> None:
    once = CachedReading(collector(Pace.ONCE), None, 0.0)

    assert is_fresh(once, monotonic=1e6, answered=1e6 - 1, stale=10.0)


def test_samples_are_made_for_a_scrape_alone_and_once() -> None:
    made: list[float] = []

    def value(reading: float) -> float:
        made.append(reading)
        return reading

    level = Collector(
        name="test",
        help="A test.",
        pace=Pace.CYCLE,
        read=lambda *_: 0.0,
        families=(gauge("gpu_level", "A test.", Unit.NONE, value),),
    )
    unseen, seen = (next_reading(level, None, number, 0.0) for number in (1.0, 2.0))

    assert made == []
    assert seen.blocks(("0",)) is seen.blocks(("0",))
    assert made == [2.0]
    assert unseen.reading == 1.0


@pytest.mark.parametrize(("later", "same"), [(2.0, True), (3.0, False)])
def test_samples_hold_for_later_readings_that_say_the_same(later: float, *, same: bool) -> None:
    level = Collector(
        name="test",
        help="A test.",
        pace=Pace.FAST,
        read=lambda *_: 0.0,
        families=(gauge("gpu_level", "A test.", Unit.NONE, lambda reading: reading),),
    )
    first = next_reading(level, None, 2.0, 0.0)
    shown = first.blocks(("0",))
    second = next_reading(level, first, later, 5.0)

    assert (second.blocks(("0",)) is shown) is same
    assert second.blocks(("0",))[0].samples == (Sample(later),)
    assert second.blocks(("1",))[0].prefix == ("1",)


def test_reset_between_two_scrapes_is_not_missed() -> None:
    total = Collector(
        name="test",
        help="A test.",
        pace=Pace.CYCLE,
        read=lambda *_: 0.0,
        families=(counter("gpu_errors_total", "A test.", Unit.NONE, lambda number: number),),
    )
    cached: CachedReading | None = None
    for raw in (100.0, 5.0, 120.0):  # scraped at the first and the last
        cached = next_reading(total, cached, raw, 0.0)

    assert cached is not None
    assert cached.blocks(())[0].samples == (Sample(220.0),)


def test_family_that_cannot_make_its_samples_costs_its_collector_alone() -> None:
    def fails(_: float) -> float:
        raise KeyError("bug")

    def made(name: str, value: Callable[[float], float]) -> Collector[float]:
        families = (gauge(f"gpu_{name}", "A test.", Unit.NONE, value),)
        return Collector(name=name, help="A test.", pace=Pace.CYCLE, read=lambda *_: 1.0, families=families)

    device = SimulatedDriver(parse("1xH100")).devices()[0]
    collectors = (made("bad", fails), made("good", lambda number: number))
    read = read_gpu(device, {}, collectors, 0.0, 0.0, {})
    gpu, broken = Gpu(device, read.states, answered=0.0), set[str]()

    shown = [block.family.name for block in device_blocks(gpu, 0.0, 10.0, broken)]
    status = NodeStatus(collectors=collector_statuses(collectors, read.outcomes, {}))
    success = next(b for b in node_blocks(status, broken) if b.family.name == "gpu_scrape_collector_success")

    assert shown == ["gpu_good"]
    assert {labels[0]: value for value, labels in success.samples} == {"bad": 0, "good": 1}


def ecc(count: float) -> Ecc:
    return Ecc({"uncorrected": count}, {}, {}, None, NO_FIELDS)


def nvlink(count: float) -> Nvlink:
    return Nvlink({0: True}, {"replay": count}, NO_COUNTS, None, 1, NO_FIELDS, NO_FIELDS, ())


def pcie(count: float) -> Pcie:
    return Pcie(5, 16, Paced(Slower(5, 16, count, {"bad_tlp": count}, NO_FIELDS), 0.0))


@pytest.mark.parametrize(
    ("collector", "read", "raw", "total"),
    [
        (ECC, ecc, "gpu_ecc_volatile_errors", "gpu_ecc_errors_total"),
        (NVLINK, nvlink, "gpu_nvlink_volatile_errors", "gpu_nvlink_errors_total"),
        (PCIE, pcie, "gpu_pcie_volatile_errors", "gpu_pcie_errors_total"),
        (PCIE, pcie, "gpu_pcie_volatile_replays", "gpu_pcie_replays_total"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_errors_of_the_driver_go_back_as_it_says_beside_a_total_that_does_not(
    collector: Collector[Any], read: Callable[[float], Any], raw: str, total: str
) -> None:
    before = next_reading(collector, None, read(3.0), 0.0)
    after = next_reading(collector, before, read(0.0), 1.0)

    def shown(cached: CachedReading, name: str) -> list[float]:
        return [s.value for block in cached.blocks(()) if block.family.name == name for s in block.samples]

    assert [shown(each, raw) for each in (before, after)] == [[3.0], [0.0]]
    assert [shown(each, total) for each in (before, after)] == [[3.0], [3.0]]
