"""When the next scrapes come: learned from those that came."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from exporter.clock import NEVER, MonotonicTime

_LATELY = 10.0
"""Seconds after which who has looked once is taken to look no more."""
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
        self._looked = NEVER

    def scraped(self, scraper: Scraper, now: MonotonicTime) -> None:
        with self._lock:
            before = self._seen.pop(scraper, None)
            while len(self._seen) >= _SCRAPERS:
                del self._seen[next(iter(self._seen))]
            self._seen[scraper] = _ScraperTimes(now, None if before is None else now - before.last)

    def looked(self, now: MonotonicTime) -> None:
        """A person looks."""
        self._looked = now

    def watched(self, now: MonotonicTime) -> bool:
        """Whether a person looked lately, or a scraper whose pace is not known yet."""
        with self._lock:
            new = [seen.last for seen in self._seen.values() if seen.interval is None]
        return any(now - last < _LATELY for last in (self._looked, *new))

    def next(self, begin: MonotonicTime) -> MonotonicTime | None:
        """When the first scrape is due that is not due before `begin`; None where none is."""
        with self._lock:
            due = [seen.last + seen.interval for seen in self._seen.values() if seen.interval is not None]
        return min((each for each in due if each >= begin), default=None)

    def expected(self, begin: MonotonicTime, end: MonotonicTime) -> tuple[Scraper, ...]:
        """Scrapers whose next scrape is due between `begin` and `end`."""
        with self._lock:
            return tuple(
                scraper
                for scraper, seen in self._seen.items()
                if seen.interval is not None and begin <= seen.last + seen.interval < end
            )
