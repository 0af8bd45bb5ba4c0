"""When the next scrapes come: learned from those that came."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from exporter.clock import MonotonicTime

_SCRAPERS = 16
"""Scrapers remembered; the one not seen for longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Scraper:
    """Who asks, and in which form."""

    client: str
    """What distinguishes clients: address and program."""
    accept: str = ""
    gzip: bool = False


@dataclass(frozen=True, slots=True)
class _ScraperTimes:
    """Times are monotonic seconds; `interval` is that between its last two scrapes, None after the first."""

    last: MonotonicTime
    interval: float | None


class ScrapeSchedule:
    """Expects each scraper again one interval after its last scrape. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[Scraper, _ScraperTimes] = {}

    def scraped(self, scraper: Scraper, now: MonotonicTime) -> None:
        with self._lock:
            before = self._seen.pop(scraper, None)
            while len(self._seen) >= _SCRAPERS:
                del self._seen[next(iter(self._seen))]
            self._seen[scraper] = _ScraperTimes(now, None if before is None else now - before.last)

    def expected(self, begin: MonotonicTime, end: MonotonicTime) -> tuple[Scraper, ...]:
        """Scrapers whose next scrape is due between `begin` and `end`."""
        with self._lock:
            return tuple(
                scraper
                for scraper, seen in self._seen.items()
                if seen.interval is not None and begin <= seen.last + seen.interval < end
            )
