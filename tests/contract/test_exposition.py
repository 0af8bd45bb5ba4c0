"""What is rendered equals what the client library makes of the same samples, and is negotiated as it does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families

from exporter.exposition.snapshot import Block
from exporter.exposition.text import Finished, Renderer, grouped
from exporter.metrics.family import Family, Sample, Type, Unit

ACCEPTS = ("", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")


def family(type_: Type) -> Family[object]:
    name = {Type.COUNTER: "gpu_x_joules_total", Type.GAUGE: "gpu_x_joules", Type.INFO: "gpu_x_info"}[type_]
    unit = Unit.NONE if type_ is Type.INFO else Unit.JOULES
    help_ = 'A "test" with \\ in it.'
    return Family(name=name, help=help_, type=type_, unit=unit, labels=("b", "a"), samples=lambda _: ())


def reference(blocks: Iterable[Block], accept: str) -> bytes:
    metrics: list[Metric] = []
    for made, members in grouped(blocks):
        stem = made.name.removesuffix("_total").removesuffix("_info")
        metric = Metric(stem, made.help, made.type.value, made.unit.value)
        for prefix, found in members:
            for sample in found:
                labels = dict(zip(made.all_labels, (*prefix, *sample.labels), strict=True))
                metric.add_sample(made.name, labels, sample.value)
        metrics.append(metric)
    encode: Any = exposition.choose_encoder(accept)[0]
    return encode(Finished(metrics))  # type: ignore[no-any-return]


def without_process(body: bytes) -> bytes:
    head, _, tail = body.partition(b"# HELP process_")
    return head + (b"# EOF\n" if tail.endswith(b"# EOF\n") else b"")


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
samples = st.lists(
    st.builds(Sample, st.floats(allow_nan=False), st.tuples(texts, texts)),
    max_size=5,
    unique_by=lambda sample: sample.labels,
)


@given(st.sampled_from(list(Type)), samples, st.sampled_from(ACCEPTS))
def test_rendered_is_byte_for_byte_what_the_client_library_renders(
    type_: Type, made: list[Sample], accept: str
) -> None:
    blocks = [Block(family(type_), ("0", "GPU-1"), tuple(made))]
    renderer = Renderer()

    for _ in range(2):  # the second time from what was kept
        assert without_process(renderer.render(blocks, accept)[1]) == reference(blocks, accept)


@pytest.mark.parametrize("accept", ACCEPTS)
def test_content_type_says_what_the_body_is(accept: str) -> None:
    blocks = [Block(family(Type.COUNTER), ("0", "GPU-1"), (Sample(1, ("x", "y")),))]

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
        Block(made, ("0", "GPU-0"), (Sample(1, ("x", "y")),)),
        Block(made, ("1", "GPU-1"), (Sample(2, ("x", "y")),)),
    ]

    body = Renderer().render(blocks, "")[1].decode()

    assert body.count("# TYPE gpu_x_joules gauge") == 1
    assert body.count("\ngpu_x_joules{") == 2
