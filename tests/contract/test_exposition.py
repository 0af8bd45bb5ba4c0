"""What is rendered equals what the client library makes of the same samples, and is negotiated as it does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.utils import floatToGoString

from exporter.exposition import own_process
from exporter.exposition.negotiation import content_type
from exporter.exposition.number import go_number
from exporter.exposition.snapshot import AnyBlock, Block, LazyBlock
from exporter.exposition.text import Renderer
from exporter.metrics.family import Family, Sample, Type, Unit, in_columns

ACCEPTS = ("", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3"
)
"""The header that Prometheus 3 sends."""


def family(type_: Type) -> Family[object]:
    name = {Type.COUNTER: "gpu_x_joules_total", Type.GAUGE: "gpu_x_joules", Type.INFO: "gpu_x_info"}[type_]
    unit = Unit.NONE if type_ is Type.INFO else Unit.JOULES
    help_ = 'A "test" with \\ in it.'
    return Family(name=name, help=help_, type=type_, unit=unit, labels=("b", "a"), samples=lambda _: ())


class Finished:
    """What the client library's encoders ask of a registry: metrics that are there already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def reference(blocks: Iterable[AnyBlock], accept: str) -> bytes:
    metrics: dict[str, Metric] = {}
    for block in blocks:
        made = block.family
        if block.samples:
            stem = made.name.removesuffix("_total").removesuffix("_info")
            metrics.setdefault(made.name, Metric(stem, made.help, made.type.value, made.unit.value))
        for sample in block.samples:
            labels = dict(zip(made.all_labels, (*block.prefix, *sample.labels), strict=True))
            metrics[made.name].add_sample(made.name, labels, sample.value)
    encode: Any = exposition.choose_encoder(accept)[0]
    return encode(Finished(metrics.values()))  # type: ignore[no-any-return]


def without_process(body: bytes) -> bytes:
    head, _, tail = body.partition(b"# HELP process_")
    return head + (b"# EOF\n" if tail.endswith(b"# EOF\n") else b"")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
samples = st.lists(
    st.builds(Sample, st.floats(allow_nan=False).map(lambda value: value + 0.0), st.tuples(texts, texts)),
    max_size=5,
    unique_by=lambda sample: sample.labels,
)


scrapes = st.lists(
    st.lists(
        st.tuples(st.sampled_from(list(Type)), st.sampled_from("01"), samples), max_size=4, unique_by=lambda t: t[:2]
    ),
    min_size=1,
    max_size=4,
)
"""What each of a few scrapes finds: families of devices, with their samples."""


@pytest.mark.parametrize("accept", ACCEPTS)
def test_own_process_is_told_as_by_the_client_library(accept: str) -> None:
    encode: Any = exposition.choose_encoder(accept)[0]
    theirs: str = encode(Finished(ProcessCollector(registry=None).collect())).decode()
    ours = Renderer().render([], accept)[1].decode()

    assert [_named(line) for line in ours.splitlines()] == [_named(line) for line in theirs.splitlines()]
    assert _value(ours, "process_start_time_seconds") == _value(theirs, "process_start_time_seconds")
    assert _value(ours, "process_max_fds") == _value(theirs, "process_max_fds")
    assert float(_value(ours, "process_cpu_seconds_total")) > 0
    assert 2**20 < float(_value(ours, "process_resident_memory_bytes")) < 2**40


@pytest.mark.parametrize("told", [True, False], ids=["a kernel that tells", "one to be counted on"])
def test_open_descriptors_are_counted(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: FBT001 - a case
    if not told:
        monkeypatch.setattr(own_process.os, "stat", lambda _: SimpleNamespace(st_size=0))

    def count() -> float:
        return float(_value(Renderer().render([], "")[1].decode(), "process_open_fds"))

    before = count()
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(Path(os.devnull).open())
        assert count() == before + 3
    assert 3 <= before < 10_000


def _named(line: str) -> str:
    """A comment whole, of a sample its name."""
    return line if line.startswith("#") else line.partition(" ")[0]


def _value(page: str, name: str) -> str:
    return next(line.partition(" ")[2] for line in page.splitlines() if line.startswith(f"{name} "))


@pytest.mark.parametrize(
    "accept",
    [
        *ACCEPTS,
        "*/*",
        "text/plain",
        "application/openmetrics-text",
        "application/openmetrics-text;version=0.0.1",
        "text/plain;version=1.0.0;escaping=allow-utf-8",
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=dots",
        PROMETHEUS,
    ],
)
def test_format_is_negotiated_as_by_the_client_library(accept: str) -> None:
    assert content_type(accept) == exposition.choose_encoder(accept)[1]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,*/*;q=0.3", "text/plain"),
        ("application/openmetrics-text;version=1.0.0;q=0.1,text/plain;version=0.0.4;q=0.9", "text/plain"),
        ("text/plain;q=0.1,application/openmetrics-text;q=0.9", "application/openmetrics-text"),
        ("application/openmetrics-text;q=0", "text/plain"),
        ("application/openmetrics-text;q=0.5,text/*", "text/plain"),
        ("application/openmetrics-text;q=high", "application/openmetrics-text"),
        ('Application/OpenMetrics-Text;Version="1.0.0"', "application/openmetrics-text"),
        ("*/*;q=0.1," * 40 + "application/openmetrics-text", "text/plain"),
    ],
)
def test_the_format_that_is_wanted_most_is_given(accept: str, kind: str) -> None:
    """As Prometheus asks by `scrape_protocols`, whose order the client library does not look at."""
    assert content_type(accept).startswith(f"{kind}; version=")


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text;version=x", ";;,;=", "text/plain;version=9" + "9" * 99]
)
def test_accept_header_of_nonsense_asks_for_plain_text(accept: str) -> None:
    assert content_type(accept) == "text/plain; version=0.0.4; charset=utf-8"


@example(float("nan"))
@example(float("inf"))
@example(float("-inf"))
@example(1e6)
@example(-1e6)
@example(12345678.5)
@given(st.floats() | st.integers(-(2**62), 2**62))
def test_number_is_written_as_by_the_client_library(number: float) -> None:
    assert go_number(number) == floatToGoString(number)


@given(scrapes, st.sampled_from(ACCEPTS))
def test_rendered_is_byte_for_byte_what_the_client_library_renders(
    found: list[list[tuple[Type, str, list[Sample]]]], accept: str
) -> None:
    renderer = Renderer()
    for scrape in (*found, found[-1]):  # from what the scrape before left, and the last one from nothing else
        blocks = [Block(family(type_), (gpu, f"GPU-{gpu}"), in_columns(made)) for type_, gpu, made in scrape]

        assert without_process(renderer.render(blocks, accept)[1]) == reference(blocks, accept)


def test_renderer_forgets_the_series_that_end() -> None:
    made, renderer = family(Type.GAUGE), Renderer()
    sizes: list[int] = []
    for start in (0, 100, 5000):
        for pid in range(start, start + 50):
            renderer.render([Block(made, (), in_columns([Sample(1, ("0", "GPU-0", str(pid), "x"))]))], "")
        sizes.append(sum(text.text.count(b"\n") for text, _ in renderer._texts))

    assert sizes == [1, 1, 1]


def test_samples_are_made_again_only_from_something_else() -> None:
    made: list[str] = []

    def samples(content: str) -> Iterable[Sample]:
        made.append(content)
        return (Sample(len(made), (content, "x")),)

    lazy, renderer = replace(family(Type.GAUGE), samples=samples), Renderer()
    one, other = "one content", "another"
    pages = [renderer.render([LazyBlock(lazy, content, ("0", "GPU-0"))], "")[1] for content in (one, one, other)]

    assert made == [one, other]
    assert without_process(pages[0]) == without_process(pages[1])
    assert b'b="another"' in pages[2]


def test_page_that_fails_leaves_no_line_behind_that_is_no_longer_true() -> None:
    """A bug in one family costs the pages that meet it, whatever had been taken over by then."""

    def samples(content: Any) -> Iterable[Sample]:
        if content == 2:
            raise RuntimeError("a bug")
        return (Sample(content, ("x", "y")),) if content else ()

    renderer = Renderer()
    first = replace(family(Type.COUNTER), samples=samples)
    second = replace(family(Type.GAUGE), samples=samples)
    for ours, theirs in ((1, 1), (0, 2), (3, 1), (4, 2), (5, 5)):
        blocks = [LazyBlock(first, float(ours), ("0", "u")), LazyBlock(second, float(theirs), ("0", "u"))]
        if theirs == 2:
            with pytest.raises(RuntimeError):
                renderer.render(blocks, "")
        else:
            assert without_process(renderer.render(blocks, "")[1]) == reference(blocks, "")


@pytest.mark.parametrize("change", ["gone", "came", "moved"])
def test_lines_follow_their_series_when_others_come_and_go(change: str) -> None:
    made, renderer = family(Type.GAUGE), Renderer()
    first = tuple(Sample(float(pid), (str(pid), "x")) for pid in range(4))
    then = {"gone": first[1:], "came": (Sample(9.0, ("9", "x")), *first), "moved": first[::-1]}[change]
    renderer.render([Block(made, ("0", "GPU-0"), in_columns(first))], "")
    changed = [Block(made, ("0", "GPU-0"), in_columns((*then[:1], Sample(0.5, then[1].labels), *then[2:])))]

    assert without_process(renderer.render(changed, "")[1]) == reference(changed, "")


def test_lines_of_another_device_are_its_own() -> None:
    """The same families as on the page before, of a GPU that has taken another's place."""
    made, renderer = family(Type.GAUGE), Renderer()
    samples = in_columns([Sample(1.0, ("x", "y"))])
    renderer.render([Block(made, ("0", "GPU-0"), samples)], "")
    then = [Block(made, ("0", "GPU-9"), samples)]

    assert without_process(renderer.render(then, "")[1]) == reference(then, "")


@pytest.mark.parametrize("accept", ACCEPTS)
def test_content_type_says_what_the_body_is(accept: str) -> None:
    blocks = [Block(family(Type.COUNTER), ("0", "GPU-1"), in_columns([Sample(1, ("x", "y"))]))]

    content_type, body = Renderer().render(blocks, accept)

    if "openmetrics" in accept:
        assert content_type.startswith("application/openmetrics-text; version=1.0.0")
        assert list(openmetrics.text_string_to_metric_families(body.decode()))
    else:
        assert content_type.startswith("text/plain; version=0.0.4")
        assert list(text_string_to_metric_families(body.decode()))


def test_family_of_several_devices_has_one_header() -> None:
    made = family(Type.GAUGE)
    blocks = [
        Block(made, ("0", "GPU-0"), in_columns([Sample(1, ("x", "y"))])),
        Block(made, ("1", "GPU-1"), in_columns([Sample(2, ("x", "y"))])),
    ]

    body = Renderer().render(blocks, "")[1].decode()

    assert body.count("# TYPE gpu_x_joules gauge") == 1
    assert body.count("\ngpu_x_joules{") == 2


def test_label_that_utf8_cannot_say_does_not_cost_the_page() -> None:
    block = Block(family(Type.GAUGE), ("0", "u"), in_columns([Sample(1.0, ("\ud800", "x")), Sample(2.0, ("y", "z"))]))

    body = Renderer().render([block], "")[1].decode()
    assert 'gpu_x_joules{a="x",b="?",gpu="0",uuid="u"} 1.0' in body
    assert 'gpu_x_joules{a="z",b="y",gpu="0",uuid="u"} 2.0' in body
