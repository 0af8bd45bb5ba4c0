"""From a snapshot to the text Prometheus reads.

The client library's encoder builds a label dictionary and escapes every value of every sample of every scrape, which
for a full node costs several times the 5 ms a scrape may take. Here the text in front of the value is made once per
series and kept; a test holds the result equal, byte for byte, to what the client library makes of the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from prometheus_client import exposition, utils
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from exporter.exposition.snapshot import AnyBlock
from exporter.metrics.family import AnyFamily, Sample, Type

_SUFFIX = {Type.COUNTER: "_total", Type.INFO: "_info", Type.GAUGE: ""}
_OPENMETRICS = "application/openmetrics-text"
_number: Callable[[float], str] = cast("Any", utils).floatToGoString
_MOST = 100_000
"""Series whose text is kept; past it all are forgotten, so that pids that come and go cannot fill the memory."""

_PLAIN = 1e6
"""From here on Go writes an exponent."""

Values = tuple[str, ...]
Member = tuple[Values, tuple[Sample, ...]]
"""Values of the prefix labels, and the samples behind them."""


class Renderer:
    """Renders snapshots. Threads may share it: what it keeps is only ever added to, or dropped whole."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Values, dict[Values, str]]] = {}
        self._process = ProcessCollector(registry=None)

    def render(self, blocks: Iterable[AnyBlock], accept: str) -> tuple[str, bytes]:
        """The content type and the body that the Accept header asks for: text 0.0.4 or OpenMetrics.

        The exporter's own `process_…` families come last.
        """
        encode, content_type = cast("Any", exposition).choose_encoder(accept)
        openmetrics = content_type.startswith(_OPENMETRICS)
        lines: list[str] = []
        for family, members in grouped(blocks):
            lines += _header(family, openmetrics=openmetrics)
            lines += self._lines(family, members)
        own: bytes = encode(Finished(self._process.collect()))
        return content_type, "".join(lines).encode() + own

    def _lines(self, family: AnyFamily, members: Iterable[Member]) -> Iterator[str]:
        by_prefix = self._kept.setdefault(family.name, {})
        if sum(map(len, by_prefix.values())) > _MOST:
            by_prefix = self._kept[family.name] = {}
        for prefix, samples in members:
            kept = by_prefix.setdefault(prefix, {})
            for value, labels in samples:
                start = kept.get(labels)
                if start is None:
                    start = kept[labels] = _start(family, (*prefix, *labels))
                # Most values are so small that Go writes them as Python does; NaN is not and goes the long way.
                yield f"{start}{float(value)!r}\n" if -_PLAIN < value < _PLAIN else f"{start}{_number(value)}\n"


class Finished:
    """What the client library's encoders ask of a registry: metrics that are there already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def grouped(blocks: Iterable[AnyBlock]) -> Iterator[tuple[AnyFamily, list[Member]]]:
    """Blocks by family, in the order in which families first appear; a family without samples is left out."""
    found: dict[str, tuple[AnyFamily, list[Member]]] = {}
    for block in blocks:
        samples = block.samples
        if samples:
            found.setdefault(block.family.name, (block.family, []))[1].append((block.prefix, samples))
    yield from found.values()


def _header(family: AnyFamily, *, openmetrics: bool) -> Iterator[str]:
    stem = family.name.removesuffix(_SUFFIX[family.type])
    name = stem if openmetrics else family.name
    kind = "gauge" if family.type is Type.INFO and not openmetrics else family.type.value
    help_ = family.help.replace("\\", r"\\").replace("\n", r"\n")
    yield f"# HELP {name} {_quoted(family.help) if openmetrics else help_}\n"
    yield f"# TYPE {name} {kind}\n"
    if openmetrics and family.unit.value:
        yield f"# UNIT {name} {family.unit.value}\n"


def _start(family: AnyFamily, values: Values) -> str:
    pairs = sorted(zip(family.all_labels, values, strict=True))
    labels = ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs)
    return f"{family.name}{{{labels}}} " if labels else f"{family.name} "


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
