"""From a snapshot to the text Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from prometheus_client import exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from exporter.metric import AnyFamily, Type
from exporter.snapshot import Block

_SUFFIX = {Type.COUNTER: "_total", Type.INFO: "_info", Type.GAUGE: ""}
_PROCESS = ProcessCollector(registry=None)


class _Finished:
    """What `generate_latest` asks of a registry: metrics that are there already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def metrics(blocks: Iterable[Block]) -> Iterator[Metric]:
    """One metric per family, in the order in which the families first appear."""
    grouped: dict[str, tuple[AnyFamily, list[Block]]] = {}
    for block in blocks:
        grouped.setdefault(block.family.name, (block.family, []))[1].append(block)
    for family, members in grouped.values():
        yield _metric(family, members)


def _metric(family: AnyFamily, blocks: Iterable[Block]) -> Metric:
    stem = family.name.removesuffix(_SUFFIX[family.type])
    metric = Metric(stem, family.help, family.type.value, family.unit.value)
    names = family.all_labels
    for block in blocks:
        for sample in block.samples:
            labels = dict(zip(names, (*block.prefix, *sample.labels), strict=True))
            metric.add_sample(family.name, labels, float(sample.value))
    return metric


def render(blocks: Iterable[Block], accept: str) -> tuple[str, bytes]:
    """The content type and the body that the Accept header asks for: text 0.0.4 or OpenMetrics.

    The exporter's own `process_…` families come last.
    """
    encode, content_type = cast("Any", exposition).choose_encoder(accept)
    found = (metric for metric in metrics(blocks) if metric.samples)
    return content_type, encode(_Finished((*found, *_PROCESS.collect())))
