"""From a snapshot's blocks to the text Prometheus reads.

The client library's encoder builds a label dictionary and escapes every value of every sample of every scrape. Here a
page is kept and brought up to date: a block is looked at again when what its samples are made of is another object, a
line is written again when its value has changed, a family when one of its lines has. A test holds the result equal,
byte for byte, to what the client library makes of the same samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, count
from operator import attrgetter, is_not

from exporter.exposition.lines import header, with_value, writer
from exporter.exposition.negotiation import content_type, is_openmetrics
from exporter.exposition.own_process import OwnProcess
from exporter.exposition.series_profile import ALL, NONE, Part, Selection
from exporter.exposition.snapshot import AnyBlock
from exporter.metrics.family import EMPTY, AnyFamily, Columns, Values

_FAMILY, _PREFIX, _SOURCE = attrgetter("family"), attrgetter("prefix"), attrgetter("source")


class _Form:
    """How a family is written, which is the same on every page."""

    __slots__ = ("_write", "headers", "part")

    def __init__(self, family: AnyFamily, part: Part) -> None:
        self.part = part
        """What of it is shown."""
        self._write = writer(family)
        self.headers = tuple(header(family, openmetrics=openmetrics).encode() for openmetrics in (False, True))

    def line(self, labels: Values, value: float) -> bytes:
        """Without its end. One odd label must not cost the page."""
        return self._write(labels, value).encode(errors="replace")


class _BlockText:
    """What is kept of one block between two pages: its text, with a line for each of the samples that are shown."""

    __slots__ = ("_columns", "_shown", "source", "text")

    def __init__(self) -> None:
        self.source: object = None
        """What the samples were made of: while it is the same object, so are they."""
        self.text = b""
        self._columns: Columns = EMPTY
        self._shown: Columns = EMPTY

    def update(self, block: AnyBlock, form: _Form) -> bool:
        """Take over the samples of a block, or raise what making them raises. Whether the text is another one now."""
        columns, before = block.columns, self._columns
        if columns.labels == before.labels:
            if columns.values == before.values:
                self.source = block.source
                return False
            columns = Columns(before.labels, columns.values)  # the same series: their labels are kept once
        if form.part is ALL:
            shown, changed = columns, True
        else:
            shown = form.part.of(block.family, columns)
            changed = shown != self._shown
        if changed:
            self.text = self._written(shown, block.prefix, form)
        self.source, self._columns, self._shown = block.source, columns, shown
        return changed

    def _written(self, shown: Columns, prefix: Values, form: _Form) -> bytes:
        """Their lines: those of before where they say the same."""
        before, lines = self._shown, self.text.split(b"\n")
        if shown.labels == before.labels:
            for place, (now, earlier) in enumerate(zip(shown.values, before.values, strict=True)):
                if now != earlier:
                    lines[place] = with_value(lines[place], now)
            return b"\n".join(lines)
        kept = dict(zip(before, lines, strict=False))  # series have come or gone; nothing stands after the last end
        found = [kept.get(each) or form.line((*prefix, *each.labels), each.value) for each in shown]
        return b"\n".join([*found, b""]) if found else b""


class _FamilyText:
    """The lines of one family of a page: those of its blocks, in their order."""

    __slots__ = ("_body", "blocks", "changed", "form")

    def __init__(self, form: _Form) -> None:
        self.form = form
        self.blocks: list[_BlockText] = []
        self.changed = True
        self._body = b""

    def body(self) -> bytes:
        """Made anew where a line has changed."""
        if self.changed:
            self._body = b"".join([block.text for block in self.blocks])
            self.changed = False
        return self._body


class Renderer:
    """Renders snapshots, one at a time. It keeps exactly what the last one had: a series that ends is forgotten.

    `selection` is what of them is shown.
    """

    def __init__(self, selection: Selection | None = None) -> None:
        self._selection = selection or Selection()
        self._forms: dict[str, _Form] = {}
        """By family, of all that there ever were."""
        self._families: list[AnyFamily] = []
        """Of the blocks of the last page; with their prefixes, what tells whether a page has the same blocks."""
        self._prefixes: list[Values] = []
        self._texts: list[tuple[_BlockText, _Form]] = []
        """Of the same blocks."""
        self._sources: list[object] = []
        """What their samples were made of."""
        self._page: dict[str, _FamilyText] = {}
        """The families that have lines, by name, in the order in which their first lines come; empty where unknown."""
        self._process = OwnProcess()

    def render(self, blocks: Iterable[AnyBlock], accept: str) -> tuple[str, bytes]:
        """The content type and the body that the Accept header asks for: text 0.0.4 or OpenMetrics."""
        answered = content_type(accept)
        return answered, b"".join(self.pieces(blocks, openmetrics=is_openmetrics(answered)))

    def pieces(self, blocks: Iterable[AnyBlock], *, openmetrics: bool) -> tuple[bytes, ...]:
        """A page in pieces; one that says the same as in the page before is the same object.

        The exporter's own `process_…` families come last.
        """
        self._update(tuple(blocks))
        pieces: list[bytes] = []
        for found in self._page.values():
            pieces += (found.form.headers[openmetrics], found.body())
        pieces.append(self._process.text(openmetrics=openmetrics).encode())
        return tuple(pieces)

    def _update(self, blocks: Sequence[AnyBlock]) -> None:
        families, prefixes = list(map(_FAMILY, blocks)), list(map(_PREFIX, blocks))
        if families != self._families or prefixes != self._prefixes:
            self._arrange(families, prefixes)
        sources = tuple(map(_SOURCE, blocks))
        for place in compress(count(), map(is_not, sources, self._sources)):
            block, (text, form) = blocks[place], self._texts[place]
            if form.part is not NONE:
                empty = not text.text
                if text.update(block, form):
                    if empty or not text.text:
                        self._page = {}
                    elif self._page:
                        self._page[block.family.name].changed = True
            self._sources[place] = sources[place]
        if not self._page:
            self._page = self._grouped()

    def _arrange(self, families: list[AnyFamily], prefixes: list[Values]) -> None:
        """Keep what these blocks had in the last page, whatever their places were, and nothing else."""
        kept = {key: text for key, (text, _) in zip(_keys(self._families, self._prefixes), self._texts, strict=True)}
        self._families, self._prefixes, self._page = families, prefixes, {}
        texts = [kept.pop(key) if key in kept else _BlockText() for key in _keys(families, prefixes)]
        self._texts = list(zip(texts, map(self._form, families), strict=True))
        self._sources = [text.source for text in texts]

    def _form(self, family: AnyFamily) -> _Form:
        found = self._forms.get(family.name)
        if found is None:
            found = self._forms[family.name] = _Form(family, self._selection.part(family.name))
        return found

    def _grouped(self) -> dict[str, _FamilyText]:
        found: dict[str, _FamilyText] = {}
        for family, (text, form) in zip(self._families, self._texts, strict=True):
            if text.text:
                found.setdefault(family.name, _FamilyText(form)).blocks.append(text)
        return found


def _keys(families: Sequence[AnyFamily], prefixes: Sequence[Values]) -> Iterator[tuple[str, Values]]:
    """What tells blocks apart."""
    return zip([family.name for family in families], prefixes, strict=True)
