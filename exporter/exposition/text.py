"""From a snapshot's blocks to the text Prometheus reads.

The client library's encoder builds a label dictionary and escapes every value of every sample of every scrape. Here
the text of each block is kept until its samples change, and what stands in front of a value until its series ends; a
test holds the result equal, byte for byte, to what the client library makes of the same samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from prometheus_client import exposition, utils
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector

from exporter.exposition.snapshot import AnyBlock
from exporter.metrics.family import AnyFamily, Sample, Type

_SUFFIX = {Type.COUNTER: "_total", Type.INFO: "_info", Type.GAUGE: ""}
_OPENMETRICS = "application/openmetrics-text"
_number: Callable[[float], str] = cast("Any", utils).floatToGoString

_PLAIN = 1e6
"""From here on Go writes an exponent."""

Values = tuple[str, ...]
_Key = tuple[str, Values]
"""Family name and values of the prefix labels."""


@dataclass(frozen=True, slots=True)
class _BlockText:
    """What is kept of one block between two renderings. `starts` holds the text in front of each value."""

    samples: tuple[Sample, ...] = ()
    text: str = ""
    starts: Mapping[Values, str] = field(default_factory=dict[Values, str])


_NOTHING_KEPT = _BlockText()


class Renderer:
    """Renders snapshots, one at a time. It keeps exactly what the last one had: a series that ends is forgotten."""

    def __init__(self) -> None:
        self._kept: dict[_Key, _BlockText] = {}
        self._headers: dict[tuple[str, bool], str] = {}
        self._process = ProcessCollector(registry=None)

    def render(self, blocks: Iterable[AnyBlock], accept: str) -> tuple[str, bytes]:
        """The content type and the body that the Accept header asks for: text 0.0.4 or OpenMetrics.

        The exporter's own `process_…` families come last.
        """
        encode, content_type = cast("Any", exposition).choose_encoder(accept)
        openmetrics = content_type.startswith(_OPENMETRICS)
        families: dict[str, list[str]] = {}
        kept: dict[_Key, _BlockText] = {}
        for block in blocks:
            samples = block.samples
            if samples:
                family = block.family
                key = (family.name, block.prefix)
                text = kept[key] = self._text(key, block, samples)
                lines = families.get(family.name)
                if lines is None:
                    lines = families[family.name] = [self._header(family, openmetrics=openmetrics)]
                lines.append(text.text)
        self._kept = kept
        own: bytes = encode(Finished(self._process.collect()))
        page = "".join([text for lines in families.values() for text in lines])
        return content_type, page.encode(errors="replace") + own  # one odd label must not cost the page

    def _text(self, key: _Key, block: AnyBlock, samples: tuple[Sample, ...]) -> _BlockText:
        before = self._kept.get(key, _NOTHING_KEPT)
        return before if before.samples == samples else _rendered(block, samples, before.starts)

    def _header(self, family: AnyFamily, *, openmetrics: bool) -> str:
        key = (family.name, openmetrics)
        header = self._headers.get(key)
        if header is None:
            header = self._headers[key] = "".join(_header(family, openmetrics=openmetrics))
        return header


def content_type(accept: str) -> str:
    """The content type that an Accept header asks for; one given in its place asks for itself."""
    found: str = cast("Any", exposition).choose_encoder(accept)[1]
    return found


class Finished:
    """What the client library's encoders ask of a registry: metrics that are there already."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _rendered(block: AnyBlock, samples: tuple[Sample, ...], known: Mapping[Values, str]) -> _BlockText:
    starts: dict[Values, str] = {}
    lines: list[str] = []
    for value, labels in samples:
        start = starts[labels] = known.get(labels) or _start(block.family, (*block.prefix, *labels))
        # Most values are so small that Go writes them as Python does; NaN is not and goes the long way.
        lines.append(f"{start}{float(value)!r}\n" if -_PLAIN < value < _PLAIN else f"{start}{_number(value)}\n")
    return _BlockText(samples, "".join(lines), starts)


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
