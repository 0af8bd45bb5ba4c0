"""The page store serves the last snapshot, to several threads at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.core.families import Block, Columns, Family, Shown, Type, Unit, in_columns, one
from exporter.exposition.page import PageStore, Renderer
from exporter.sampling.snapshot import Snapshot
from tests.growth import grown

VALUE: Family[object] = Family(
    name="gpu_value", help="A test.", type=Type.GAUGE, unit=Unit.NONE, samples=lambda _: (), prefix=("gpu",)
)
LABELLED: Mapping[Shown, Family[object]] = {
    shown: replace(VALUE, name=f"gpu_{shown.value}", labels=("owner",), shown=shown) for shown in Shown
}
GPUS = 50


def snapshot(number: float) -> Snapshot:
    def series() -> Iterator[Block]:
        for gpu in range(GPUS):
            yield Block(VALUE, (str(gpu),), one(number))

    return Snapshot(series=series)


def values(page: tuple[str, bytes]) -> set[str]:
    return {line.rpartition(" ")[2] for line in page[1].decode().splitlines() if line.startswith("gpu_value{")}


def lines(page: tuple[str, bytes]) -> list[str]:
    """Return the lines of a page without the client library's own metrics."""
    return [line for line in page[1].decode().splitlines() if line.startswith("gpu_")]


def test_page_store_serves_the_last_snapshot_in_the_format_asked_for() -> None:
    store = PageStore()
    empty = store.page("")
    for number in (1.0, 2.0):
        store.publish(snapshot(number))
    plain, openmetrics = store.page(""), store.page("application/openmetrics-text")

    assert values(empty) == set()
    assert (values(plain), values(openmetrics)) == ({"2.0"}, {"2.0"})
    assert plain[0] == "text/plain; version=0.0.4; charset=utf-8"
    assert openmetrics[0].startswith("application/openmetrics-text; version=1.0.0")


def test_page_store_leaves_hidden_families_out() -> None:
    store = PageStore(hide=("gpu_val*",))
    store.publish(snapshot(1.0))

    assert values(store.page("")) == set()


def test_page_store_refuses_series_without_a_value() -> None:
    store = PageStore()
    store.publish(Snapshot(series=lambda: iter([Block(VALUE, ("0",), Columns(((), ()), (1.0,)))])))

    with pytest.raises(ValueError, match="zip"):
        store.page("")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999_999.5, "999999.5"),
        (1e6, "1e+06"),
        (-1_234_567.0, "-1234567.0"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (3, "3.0"),
    ],
)
def test_number_is_written_as_prometheus_reads_it(value: float, text: str) -> None:
    assert lines(Renderer().render([Block(VALUE, ("0",), one(value))], "")) == [f'gpu_value{{gpu="0"}} {text}']


def test_help_of_several_lines_is_one_line_with_escapes() -> None:
    family = replace(VALUE, name="gpu_value_watts", unit=Unit.WATTS, help='A "test"\nof C:\\x.')
    plain, openmetrics = (
        Renderer().render([Block(family, ("0",), one(1.0))], accept)[1].decode().splitlines()[:3]
        for accept in ("", "application/openmetrics-text")
    )

    assert plain == [
        r'# HELP gpu_value_watts A "test"\nof C:\\x.',
        "# TYPE gpu_value_watts gauge",
        'gpu_value_watts{gpu="0"} 1.0',
    ]
    assert openmetrics == [
        r"# HELP gpu_value_watts A \"test\"\nof C:\\x.",
        "# TYPE gpu_value_watts gauge",
        "# UNIT gpu_value_watts watts",
    ]


READINGS = tuple(
    in_columns([(value, (label,)) for label, value in zip(labels, values, strict=True)])
    for labels in ("a", "b", "ab", "ba")
    for values in product((0.0, 1.0, 2.0), repeat=len(labels))
)
"""Few, so that a page often shows one of the page before, or one with the same labels or the same values."""
blocks = st.lists(
    st.tuples(st.sampled_from(list(Shown)), st.sampled_from("01"), st.sampled_from(READINGS)),
    max_size=4,
    unique_by=lambda block: block[:2],
)


@example([[(Shown.ALL, "0", in_columns([(value, (label,))]))] for value, label in ((0.0, "a"), (1.0, "a"), (1.0, "b"))])
@given(st.lists(blocks, min_size=2, max_size=5))
def test_page_with_kept_texts_equals_a_fresh_one(pages: list[list[tuple[Shown, str, Columns]]]) -> None:
    renderer = Renderer()
    for page in pages:
        made = [Block(LABELLED[shown], (gpu,), columns) for shown, gpu, columns in page]

        assert lines(renderer.render(made, "")) == lines(Renderer().render(made, ""))


def test_renderer_does_not_grow_with_series_that_are_gone() -> None:
    renderer = Renderer()

    def next_round(number: int) -> None:
        renderer.render([Block(LABELLED[Shown.ALL], (str(number),), in_columns([(1.0, (f"job-{number}",))]))], "")

    assert grown(renderer, next_round) == {}


def test_scrapes_at_the_same_time_get_whole_pages_of_one_snapshot() -> None:
    store = PageStore()

    def scrape(number: int) -> tuple[int, set[str]]:
        store.publish(snapshot(float(number)))
        page = store.page("")
        return page[1].count(b"\ngpu_value{"), values(page)

    with ThreadPoolExecutor(max_workers=4) as pool:
        found = list(pool.map(scrape, range(100)))

    assert {lines for lines, _ in found} == {GPUS}
    assert {len(each) for _, each in found} == {1}
