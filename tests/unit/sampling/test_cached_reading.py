"""What is published between passes: counters never go back, gauges only while fresh."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.collectors.base import Collector, Pace
from exporter.metrics.counters import Counts, count
from exporter.metrics.family import Sample
from exporter.sampling.cached_reading import CachedReading, is_fresh


def collector(pace: Pace) -> Collector[object]:
    return Collector(name="test", help="A test.", pace=pace, read=lambda *_: None, families=())


def totals(samples: tuple[Sample, ...]) -> dict[tuple[str, ...], float]:
    return {sample.labels: sample.value for sample in samples}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e12), max_size=3), max_size=20))
def test_published_counter_never_goes_back_and_no_label_vanishes(raw: list[dict[str, float]]) -> None:
    counts: Counts = {}
    published: dict[tuple[str, ...], float] = {}
    for step in raw:
        counts, samples = count(counts, tuple(Sample(value, (kind,)) for kind, value in step.items()))
        now = totals(samples)
        assert set(published) <= set(now)
        assert all(now[labels] >= value for labels, value in published.items())
        published = now


def test_counter_of_a_reloaded_driver_goes_on_from_where_it_was() -> None:
    counts, _ = count({}, (Sample(100.0, ("a",)),))

    counts, samples = count(counts, (Sample(7.0, ("a",)),))
    _, later = count(counts, (Sample(9.0, ("a",)),))

    assert (samples[0].value, later[0].value) == (107.0, 109.0)


def test_first_value_is_the_sources_own() -> None:
    assert count({}, (Sample(42.0, ("a",)),))[1] == (Sample(42.0, ("a",)),)


def test_gauge_is_fresh_for_its_pace_and_gone_when_the_device_is_silent() -> None:
    slow = CachedReading(collector(Pace.SLOW), None, 0.0, 100.0, ())

    assert is_fresh(slow, monotonic=140.0, answered=139.0, stale=10.0)
    assert not is_fresh(slow, monotonic=140.0, answered=120.0, stale=10.0)
    assert not is_fresh(slow, monotonic=180.0, answered=179.0, stale=10.0)


def test_what_is_read_once_stays_while_the_device_answers() -> None:
    once = CachedReading(collector(Pace.ONCE), None, 0.0, 0.0, ())

    assert is_fresh(once, monotonic=1e6, answered=1e6 - 1, stale=10.0)
