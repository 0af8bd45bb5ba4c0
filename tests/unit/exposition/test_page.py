"""The page store serves the last snapshot, to several threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from exporter.core.families import Block, Columns, Family, Type, Unit, one
from exporter.exposition.page import PageStore
from exporter.sampling.snapshot import Snapshot

VALUE: Family[object] = Family(
    name="gpu_value", help="A test.", type=Type.GAUGE, unit=Unit.NONE, samples=lambda _: (), prefix=("gpu",)
)
GPUS = 50


def snapshot(number: float) -> Snapshot:
    def series() -> Iterator[Block]:
        for gpu in range(GPUS):
            yield Block(VALUE, (str(gpu),), one(number))

    return Snapshot(series=series)


def values(page: tuple[str, bytes]) -> set[str]:
    return {line.rpartition(" ")[2] for line in page[1].decode().splitlines() if line.startswith("gpu_value{")}


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
