"""From a snapshot's blocks to the text Prometheus reads.

The client library's encoder builds a label dictionary and escapes every value of every sample of every scrape. Here
the lines of each block are kept until what its samples are made of changes, and each line until its value does; a test
holds the result equal, byte for byte, to what the client library makes of the same samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from exporter.exposition.negotiation import content_type, is_openmetrics
from exporter.exposition.number import go_number
from exporter.exposition.own_process import OwnProcess
from exporter.exposition.series_profile import ALL, NONE, Selection
from exporter.exposition.snapshot import AnyBlock
from exporter.metrics.family import AnyFamily, Sample, Type

_SUFFIX = {Type.COUNTER: "_total", Type.INFO: "_info", Type.GAUGE: ""}

Values = tuple[str, ...]
_Key = tuple[str, Values]
"""Family name and values of the prefix labels."""


@dataclass(slots=True)
class _BlockLines:
    """What is kept of one block between two renderings: one line for each of the samples that are shown."""

    source: object
    """What the samples were made of: while it is the same object, so are they."""
    samples: tuple[Sample, ...]
    lines: tuple[str, ...]


_NOTHING_KEPT = _BlockLines(None, (), ())


class Renderer:
    """Renders snapshots, one at a time. It keeps exactly what the last one had: a series that ends is forgotten.

    `selection` is what of them is shown.
    """

    def __init__(self, selection: Selection | None = None) -> None:
        self._selection = selection or Selection()
        self._kept: dict[_Key, _BlockLines] = {}
        self._headers: dict[tuple[str, bool], str] = {}
        self._process = OwnProcess()

    def render(self, blocks: Iterable[AnyBlock], accept: str) -> tuple[str, bytes]:
        """The content type and the body that the Accept header asks for: text 0.0.4 or OpenMetrics.

        The exporter's own `process_…` families come last.
        """
        answered = content_type(accept)
        openmetrics = is_openmetrics(answered)
        families: dict[str, list[str]] = {}
        before, kept, part = self._kept, dict[_Key, _BlockLines](), self._selection.part
        for block in blocks:
            family = block.family
            name = family.name
            key = (name, block.prefix)
            found = before.get(key)
            if found is None or found.source is not block.source:
                shown = part(name)
                if shown is NONE:
                    continue
                samples = block.samples if shown is ALL else shown.of(family, block.samples)
                found = _rendered(block, samples, found or _NOTHING_KEPT)
            kept[key] = found
            if found.lines:
                lines = families.get(name)
                if lines is None:
                    lines = families[name] = [self._header(family, openmetrics=openmetrics)]
                lines += found.lines
        self._kept = kept
        own = self._process.text(openmetrics=openmetrics)
        page = "".join([line for lines in (*families.values(), (own,)) for line in lines])
        return answered, page.encode(errors="replace")  # one odd label must not cost the page

    def _header(self, family: AnyFamily, *, openmetrics: bool) -> str:
        key = (family.name, openmetrics)
        header = self._headers.get(key)
        if header is None:
            header = self._headers[key] = "".join(_header(family, openmetrics=openmetrics))
        return header


def _rendered(block: AnyBlock, samples: tuple[Sample, ...], before: _BlockLines) -> _BlockLines:
    """The lines of `samples`, those of before where they say the same."""
    if before.samples == samples:
        return _BlockLines(block.source, samples, before.lines)
    lines = list(before.lines)
    if len(before.samples) == len(samples):
        for place, ((value, labels), (earlier, known)) in enumerate(zip(samples, before.samples, strict=True)):
            if labels != known:
                break
            if value != earlier:
                lines[place] = _line(block, labels, value, lines[place])
        else:
            return _BlockLines(block.source, samples, tuple(lines))
    # series have come or gone
    kept = {sample.labels: (sample.value, line) for sample, line in zip(before.samples, before.lines, strict=True)}
    anew: list[str] = []
    for value, labels in samples:
        earlier, line = kept.get(labels, (value, ""))
        anew.append(line if line and value == earlier else _line(block, labels, value, line))
    return _BlockLines(block.source, samples, tuple(anew))


def _line(block: AnyBlock, labels: Values, value: float, before: str) -> str:
    """A sample's line; `before` is its last one, or empty."""
    start = before[: before.rindex(" ") + 1] if before else _start(block.family, (*block.prefix, *labels))
    return f"{start}{go_number(value)}\n"


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
