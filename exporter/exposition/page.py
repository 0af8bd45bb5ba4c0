"""Rendering of a snapshot as the text that Prometheus reads.

The client library makes a dictionary of each sample at each scrape. Here the text of a block is kept until its source
changes. A test compares a page with what the client library writes of the same samples.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple

from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString  # pyright: ignore[reportUnknownVariableType]

from exporter.core.families import AnyFamily, Block, Columns, Shown, Type, Values
from exporter.sampling.snapshot import Snapshot

_PLAIN_LIMIT = 1e6
"""Python writes numbers below this one as Go does."""
_REWRITING = re.compile(r"escaping=(?:dots|values)")
"""Escapings that change every name. A server need not offer them."""
_ESCAPED = frozenset('\\"\n')


class PageStore:
    """Makes pages of the last snapshot. Thread-safe."""

    def __init__(self, hide: Iterable[str] = ()) -> None:
        """`hide` are the names of hidden families, as patterns."""
        self._renderer = Renderer(hide)
        self._lock = threading.Lock()
        self._snapshot = Snapshot()

    def publish(self, snapshot: Snapshot) -> None:
        """Serve this snapshot from now on."""
        self._snapshot = snapshot

    def page(self, accept: str) -> tuple[str, bytes]:
        """Return the content type and the body for an Accept header."""
        with self._lock:
            return self._renderer.render(self._snapshot.blocks, accept)


class Renderer:
    """Renders blocks. Keeps the texts of the last page alone, so that a series that ends is forgotten."""

    def __init__(self, hide: Iterable[str] = ()) -> None:
        """`hide` are the names of hidden families, as patterns."""
        self._hide = tuple(hide)
        self._forms: dict[str, _Form | None] = {}
        self._texts: dict[tuple[str, Values], _Text] = {}

    def render(self, blocks: Iterable[Block], accept: str) -> tuple[str, bytes]:
        """Return the content type and the body for an Accept header.

        The client library's own metrics of process, platform and garbage collection come last.
        """
        forms, before, texts = self._forms, self._texts, dict[tuple[str, Values], _Text]()
        families: dict[str, list[str]] = {}
        for block in blocks:
            name = block.family.name
            if name not in forms:
                forms[name] = None if any(fnmatchcase(name, pattern) for pattern in self._hide) else _Form(block.family)
            if form := forms[name]:
                key = (name, block.prefix)
                text = before.get(key)
                if text is None or text.source is not block.source:
                    text = form.text(block, text)
                texts[key] = text
                if text.lines:
                    families.setdefault(name, []).append(text.lines)
        self._texts = texts
        try:
            encode, content_type = choose_encoder(_REWRITING.sub("escaping=underscores", accept))
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        is_openmetrics = content_type.startswith("application/openmetrics-text")
        parts = [(forms[name], lines) for name, lines in families.items()]
        page = "".join(["".join((form.headers[is_openmetrics], *lines)) for form, lines in parts if form])
        return content_type, page.encode(errors="replace") + encode(REGISTRY)


class _Text(NamedTuple):
    """The lines of a block, and what they were made from. `series` are the names and labels of all its samples."""

    source: object
    columns: Columns
    series: tuple[str, ...]
    lines: str


class _Form:
    """The parts of a family's text that are the same on every page. `headers` are for plain text and OpenMetrics."""

    def __init__(self, family: AnyFamily) -> None:
        labels = family.all_labels
        self._order = sorted(range(len(labels)), key=labels.__getitem__)
        pairs = ",".join([f'{labels[place]}="%s"' for place in self._order])
        self._series_format = f"{family.name}{{{pairs}}}" if pairs else family.name
        self._shown = family.shown
        kind, help_ = family.type.value, family.help.replace("\\", r"\\").replace("\n", r"\n")
        stem = family.name.removesuffix("_total") if family.type is Type.COUNTER else family.name
        unit = f"# UNIT {stem} {family.unit.value}\n" if family.unit.value else ""
        self.headers = (
            f"# HELP {family.name} {help_}\n# TYPE {family.name} {kind}\n",
            f"# HELP {stem} {_escape_text(family.help)}\n# TYPE {stem} {kind}\n{unit}",
        )

    def text(self, block: Block, before: _Text | None) -> _Text:
        """Return the text of a block. `before` is its last text, of which is kept what is still the same."""
        columns = block.columns
        if before is None or before.columns.labels != columns.labels:
            series = tuple([self._series((*block.prefix, *labels)) for labels in columns.labels])
        elif before.columns.values == columns.values:
            return before._replace(source=block.source)
        else:
            series = before.series
        samples: Iterable[tuple[str, float]] = zip(series, columns.values, strict=True)
        if self._shown is not Shown.ALL:
            samples = [(name, value) for name, value in samples if self._shown.has(value)]
        lines = "".join([f"{name} {_number_text(value)}\n" for name, value in samples])
        return _Text(block.source, columns, series, lines)

    def _series(self, values: Values) -> str:
        if not _ESCAPED.isdisjoint("".join(values)):
            values = tuple(map(_escape_text, values))
        return self._series_format % tuple([values[place] for place in self._order])


def _number_text(value: float) -> str:
    if -_PLAIN_LIMIT < value < _PLAIN_LIMIT:
        return repr(float(value))
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


def _escape_text(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
