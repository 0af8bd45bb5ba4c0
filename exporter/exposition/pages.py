"""The pages of the last snapshot: rendered once for each form they are asked in, and ahead of the scrapes to come.

A page is made and kept here, until the next snapshot is published; nobody else keeps one.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

from exporter.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.exposition.compressed import Compressor
from exporter.exposition.negotiation import content_type, is_openmetrics
from exporter.exposition.scrape_schedule import Scraper, ScrapeSchedule
from exporter.exposition.series_profile import Selection
from exporter.exposition.snapshot import Snapshot
from exporter.exposition.text import Renderer

_SLACK = 0.1
"""Part of the interval by which a scrape may come early or late and still find its page rendered."""
_OLD = 2.5
"""Intervals: a snapshot that is as old, because nothing changed and nobody was expected, is renewed for who comes."""
_FORMS = 8
"""Forms of a snapshot that are kept; Accept headers may be made up without end."""


@dataclass(frozen=True, slots=True)
class Page:
    """One finished answer."""

    content_type: str
    body: bytes
    gzip: bool = False
    """Whether the body is compressed."""


class PageStore:
    """Gives pages to the threads that answer scrapes; the thread that runs the passes publishes the snapshots.

    `interval` is that of the passes, in seconds; `selection` what of a snapshot is shown.
    """

    def __init__(
        self, interval: float, selection: Selection | None = None, clock: MonotonicClock = monotonic_time
    ) -> None:
        self._interval = interval
        self._renew: Callable[[], None] = lambda: None
        self._renewing = False
        self._clock = clock
        self._schedule = ScrapeSchedule()
        self._lock = threading.Lock()
        """Held while a page is made: the renderer makes one at a time, and two scrapes make theirs together."""
        self._renderer = Renderer(selection)
        self._compressors = (Compressor(), Compressor())
        """Of the plain format and of OpenMetrics."""
        self._current = _Pages(Snapshot())

    def renewed_by(self, renew: Callable[[], None]) -> None:
        """From now on `renew` has a pass made at once, and returns when its snapshot is published, or after a while."""
        self._renew = renew

    def publish(self, snapshot: Snapshot) -> None:
        """Take over a snapshot; until the pages expected of it are rendered, scrapes get those of the one before."""
        pages = _Pages(snapshot)
        now, slack = self._clock(), self._interval * _SLACK
        for scraper in self._schedule.expected(now - slack, now + self._interval + slack):
            self._page(pages, scraper)
        self._current = pages

    def awaited(self) -> float:
        """Seconds until a scrape is expected; infinite where none is, and 0 where somebody is there who was not."""
        now = self._clock()
        if self._renewing or self._schedule.watched(now):
            return 0.0
        due = self._schedule.next(now - self._interval * _SLACK)
        return math.inf if due is None else max(0.0, due - now)

    def watched(self) -> None:
        """Somebody looks at this node now, and perhaps for a while."""
        now = self._clock()
        self._schedule.looked(now)
        self._refresh(now)

    def page(self, scraper: Scraper) -> Page:
        """The page of the last snapshot, in the form that `scraper` asks for."""
        now = self._clock()
        self._schedule.scraped(scraper, now)
        self._refresh(now)
        return self._page(self._current, scraper)

    def kept(self, scraper: Scraper) -> Page | None:
        """The same where it is made already; None, and nobody has scraped, where it is not."""
        now, found = self._clock(), self._current.kept.get(_form(scraper))
        if found is None or self._is_old(now):
            return None
        self._schedule.scraped(scraper, now)
        return found

    def _refresh(self, now: MonotonicTime) -> None:
        """Have what there is to see be of now, for somebody who was not expected."""
        if self._is_old(now):
            self._renewing = True
            try:
                self._renew()
            finally:
                self._renewing = False

    def _is_old(self, now: MonotonicTime) -> bool:
        """Whether the last snapshot is; there may be none yet."""
        made = self._current.snapshot.monotonic
        return made != NEVER and now - made > _OLD * self._interval

    def _page(self, pages: _Pages, scraper: Scraper) -> Page:
        form = _form(scraper)
        found = pages.kept.get(form)
        if found is None:
            with self._lock:
                found = pages.kept.get(form) or self._make(pages, *form)
        return found

    def _make(self, pages: _Pages, content_type: str, compressed: bool) -> Page:  # noqa: FBT001 - part of the form
        openmetrics = is_openmetrics(content_type)
        pieces = pages.pieces.get(openmetrics)
        if pieces is None:
            blocks = pages.snapshot.blocks
            pieces = pages.pieces[openmetrics] = self._renderer.pieces(blocks, openmetrics=openmetrics)
        body = self._compressors[openmetrics].compressed(pieces) if compressed else b"".join(pieces)
        page = Page(content_type, body, compressed)
        if len(pages.kept) < _FORMS:
            pages.kept[content_type, compressed] = page
        return page


def _form(scraper: Scraper) -> tuple[str, bool]:
    """Content type, and whether compressed."""
    return content_type(scraper.accept), scraper.gzip


class _Pages:
    """The pages of one snapshot, by content type and whether they are compressed, as far as they are made."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.pieces: dict[bool, tuple[bytes, ...]] = {}
        """What they are made of, by whether it is OpenMetrics."""
        self.kept: dict[tuple[str, bool], Page] = {}
