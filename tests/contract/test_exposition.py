"""A page equals what the client library writes of the same samples, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from exporter.attribution.families import workload_families
from exporter.collectors import COLLECTORS
from exporter.core.clock import Moment, MonotonicTime, UnixTime
from exporter.core.families import Block, Family, Sample, Shown, Type, Unit, in_columns
from exporter.exposition.page import Renderer
from exporter.sampling.accounting import Accounting, AccountingOptions
from exporter.sampling.sampler import Pacing, Sampler
from exporter.tools.simulator import simulate
from exporter.tools.simulator.driver import SimulatedHost

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
ACCEPTS = ("", "text/plain;version=0.0.4", f"{OPENMETRICS},text/plain;version=0.0.4;q=0.5")
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3"
)
"""The header that Prometheus 3 sends."""
CYCLES = 40
NODES = (
    "2xH100:training,input-bound;churn=5;fault=lost:1@12",
    "1xH100-mig:training,free,inference;churn=5",
    "1xB200:nvlink-down",
)


def family(type_: Type, shown: Shown = Shown.ALL) -> Family[object]:
    suffix = "_joules_total" if type_ is Type.COUNTER else "_joules"
    name, help_ = f"gpu_x_{shown.value}{suffix}", 'A "test" with \\ in it.'
    return Family(
        name=name, help=help_, type=type_, unit=Unit.JOULES, labels=("b", "a"), samples=lambda _: (), shown=shown
    )


class Registry:
    """Has metrics for the client library's encoders."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def reference(blocks: Iterable[Block], accept: str) -> bytes:
    """Return what the client library writes of these blocks."""
    metrics: dict[str, Metric] = {}
    for block in blocks:
        made = block.family
        for sample in block.samples:
            if made.shown.has(sample.value):
                stem = made.name.removesuffix("_total") if made.type is Type.COUNTER else made.name
                metric = metrics.setdefault(made.name, Metric(stem, made.help, made.type.value, made.unit.value))
                labels = dict(zip(made.all_labels, (*block.prefix, *sample.labels), strict=True))
                metric.add_sample(made.name, labels, sample.value)
    encode: Any = exposition.choose_encoder(accept)[0]
    return encode(Registry(metrics.values()))  # type: ignore[no-any-return]


def ours(page: bytes) -> bytes:
    """Return a page without the client library's own metrics, whose values change from one moment to the next."""
    head, _, tail = page.partition(b"# HELP python_")
    return head + (b"# EOF\n" if tail.endswith(b"# EOF\n") else b"")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
samples = st.lists(
    st.builds(
        Sample, st.just(0.0) | st.floats(allow_nan=False).map(lambda value: value + 0.0), st.tuples(texts, texts)
    ),
    max_size=5,
    unique_by=lambda sample: sample.labels,
)
scrapes = st.lists(
    st.lists(
        st.tuples(st.sampled_from(list(Type)), st.sampled_from(list(Shown)), st.sampled_from("01"), samples),
        max_size=4,
        unique_by=lambda found: found[:3],
    ),
    min_size=1,
    max_size=4,
)
"""The families of devices that each of a few scrapes finds, with their samples."""


@given(scrapes, st.sampled_from(ACCEPTS))
def test_page_of_any_samples_equals_the_client_librarys(
    found: list[list[tuple[Type, Shown, str, list[Sample]]]], accept: str
) -> None:
    renderer = Renderer()
    for scrape in (*found, found[-1]):
        blocks = [
            Block(family(type_, shown), (gpu, f"GPU-{gpu}"), in_columns(made)) for type_, shown, gpu, made in scrape
        ]

        assert ours(renderer.render(blocks, accept)[1]) == reference(blocks, accept)


def cycles(spec: str) -> Iterator[list[Block]]:
    """The blocks of each sampling cycle of a simulated node, one a second."""
    now = [1_700_000_000.0]
    driver = simulate(spec, lambda: now[0])
    accounting = Accounting(AccountingOptions(retention=10.0), workload_families(()))
    sampler = Sampler(driver, SimulatedHost(driver.node), COLLECTORS, Pacing(deadline=20.0), accounting)
    sampler.connection._attempt()
    sampler.connection.first.set()
    for second in range(CYCLES):
        now[0] += 1.0
        yield list(sampler.run_cycle(Moment(UnixTime(now[0]), MonotonicTime(1000.0 + second))).blocks)
    sampler.stop()


@pytest.mark.parametrize("spec", NODES, ids=lambda spec: spec.partition(";")[0])
def test_pages_of_a_node_equal_the_client_librarys_over_many_cycles(spec: str) -> None:
    renderer = Renderer()
    for blocks in cycles(spec):
        for accept in ("", OPENMETRICS):
            assert ours(renderer.render(blocks, accept)[1]) == reference(blocks, accept)


@example(float("nan"))
@example(float("inf"))
@example(float("-inf"))
@example(1e6)
@example(-1e6)
@example(12345678.5)
@given(st.floats() | st.integers(-(2**62), 2**62))
def test_page_number_equals_the_client_librarys(number: float) -> None:
    blocks = [Block(family(Type.GAUGE), ("0", "GPU-0"), in_columns([Sample(number, ("x", "y"))]))]

    assert ours(Renderer().render(blocks, "")[1]) == reference(blocks, "")


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_page_ends_with_the_client_librarys_own_metrics(accept: str) -> None:
    page = Renderer().render([], accept)[1].decode()
    names = {line.split()[2].removesuffix("_total") for line in page.splitlines() if line.startswith("# TYPE")}

    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_gc_collections"} <= names
    assert page.endswith("# EOF\n") == ("openmetrics" in accept)


@pytest.mark.parametrize(
    "accept",
    [
        *ACCEPTS,
        "*/*",
        "text/plain",
        "application/openmetrics-text",
        "application/openmetrics-text;version=0.0.1",
        "text/plain;version=1.0.0;escaping=allow-utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
        PROMETHEUS,
    ],
)
def test_content_type_equals_the_client_librarys(accept: str) -> None:
    assert Renderer().render([], accept)[0] == exposition.choose_encoder(accept)[1]


@pytest.mark.parametrize("escaping", ["dots", "values"])
def test_escaping_that_would_change_names_is_answered_with_underscores(escaping: str) -> None:
    content_type, page = Renderer().render([], f"{OPENMETRICS};escaping={escaping}")

    assert content_type.endswith("escaping=underscores")
    assert b"\nprocess_cpu_seconds_total " in page


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=x", ";;,;=", "text/plain;version=x.1"])
def test_accept_header_of_nonsense_gets_plain_text(accept: str) -> None:
    assert Renderer().render([], accept)[0] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize("accept", ACCEPTS)
def test_content_type_names_the_format_of_the_body(accept: str) -> None:
    blocks = [Block(family(Type.COUNTER), ("0", "GPU-1"), in_columns([Sample(1, ("x", "y"))]))]

    content_type, body = Renderer().render(blocks, accept)

    if "openmetrics" in accept:
        assert content_type.startswith("application/openmetrics-text; version=1.0.0")
        assert list(openmetrics.text_string_to_metric_families(body.decode()))
    else:
        assert content_type.startswith("text/plain; version=0.0.4")
        assert list(text_string_to_metric_families(body.decode()))


def test_hidden_family_is_absent() -> None:
    blocks = [Block(family(Type.GAUGE), ("0", "GPU-0"), in_columns([Sample(1.0, ("x", "y"))]))]

    assert ours(Renderer(("gpu_y_*", "gpu_x_*_joules")).render(blocks, "")[1]) == b""
    assert b"gpu_x_all_joules{" in Renderer(("gpu_x", "gpu_y_*")).render(blocks, "")[1]


def test_family_without_a_shown_sample_on_its_first_gpu_keeps_the_client_librarys_order() -> None:
    sparse, dense = family(Type.GAUGE, Shown.NONZERO), family(Type.COUNTER)
    found = [(sparse, "0", 0.0), (dense, "0", 1.0), (sparse, "1", 1.0)]
    blocks = [Block(made, (gpu, "GPU"), in_columns([Sample(value, ("x", "y"))])) for made, gpu, value in found]

    assert ours(Renderer().render(blocks, "")[1]) == reference(blocks, "")


def test_ended_series_is_forgotten() -> None:
    made, renderer = family(Type.GAUGE), Renderer()
    sizes: list[int] = []
    for start in (0, 100, 5000):
        for pid in range(start, start + 50):
            renderer.render([Block(made, (f"{pid}", "GPU-0"), in_columns([Sample(1, ("a", "b"))]))], "")
        sizes.append(len(renderer._texts))

    assert sizes == [1, 1, 1]


def test_samples_are_made_once_for_a_source() -> None:
    made: list[str] = []

    def samples(content: str) -> Iterable[Sample]:
        made.append(content)
        return (Sample(len(made), (content, "x")),)

    lazy, renderer = replace(family(Type.GAUGE), samples=samples), Renderer()
    one, other = "one content", "another"
    pages = [renderer.render([Block(lazy, ("0", "GPU-0"), content)], "")[1] for content in (one, one, other)]

    assert made == [one, other]
    assert ours(pages[0]) == ours(pages[1])
    assert b'b="another"' in pages[2]


def test_page_after_a_failed_one_has_todays_samples() -> None:
    def samples(content: Any) -> Iterable[Sample]:
        if content == 2:
            raise RuntimeError("a bug")
        return (Sample(content, ("x", "y")),) if content else ()

    renderer = Renderer()
    first = replace(family(Type.COUNTER), samples=samples)
    second = replace(family(Type.GAUGE), samples=samples)
    for ours_, theirs in ((1, 1), (0, 2), (3, 1), (4, 2), (5, 5)):
        blocks = [Block(first, ("0", "u"), float(ours_)), Block(second, ("0", "u"), float(theirs))]
        if theirs == 2:
            with pytest.raises(RuntimeError):
                renderer.render(blocks, "")
        else:
            assert ours(renderer.render(blocks, "")[1]) == reference(blocks, "")


@pytest.mark.parametrize("change", ["gone", "came", "moved"])
def test_lines_follow_their_series_when_others_come_and_go(change: str) -> None:
    made, renderer = family(Type.GAUGE), Renderer()
    first = tuple(Sample(float(pid), (str(pid), "x")) for pid in range(4))
    then = {"gone": first[1:], "came": (Sample(9.0, ("9", "x")), *first), "moved": first[::-1]}[change]
    renderer.render([Block(made, ("0", "GPU-0"), in_columns(first))], "")
    changed = [Block(made, ("0", "GPU-0"), in_columns((*then[:1], Sample(0.5, then[1].labels), *then[2:])))]

    assert ours(renderer.render(changed, "")[1]) == reference(changed, "")


def test_lines_of_another_device_have_its_labels() -> None:
    made, renderer = family(Type.GAUGE), Renderer()
    samples = in_columns([Sample(1.0, ("x", "y"))])
    renderer.render([Block(made, ("0", "GPU-0"), samples)], "")
    then = [Block(made, ("0", "GPU-9"), samples)]

    assert ours(renderer.render(then, "")[1]) == reference(then, "")


def test_label_outside_utf8_does_not_cost_the_page() -> None:
    block = Block(family(Type.GAUGE), ("0", "u"), in_columns([Sample(1.0, ("\ud800", "x")), Sample(2.0, ("y", "z"))]))

    body = Renderer().render([block], "")[1].decode()
    assert 'gpu_x_all_joules{a="x",b="?",gpu="0",uuid="u"} 1.0' in body
    assert 'gpu_x_all_joules{a="z",b="y",gpu="0",uuid="u"} 2.0' in body
