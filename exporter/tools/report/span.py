"""When a workload held GPUs."""

from __future__ import annotations

from exporter.tools.report import promql_span
from exporter.tools.report.client import Client
from exporter.tools.report.model import Span

_COARSE, _FINE = 10_000, 2_000
"""Points of a look over the range, and of one at either end of what it found; Prometheus gives 11,000 at most."""
_LEAST_STEP = 1.0
_LOOKBACK = "300s"


def held_span(client: Client, selector: str, since: float, now: float) -> Span | None:
    """Found roughly over the whole range, then both ends to the second or so; None where it never held any.

    Each point stands for all samples since the point before, so that no workload is too short to be seen. One that was
    shorter than a scrape interval was never seen holding, but its counters were: they stay for a while when it ends.
    """
    found = _times(client, promql_span.held_since, selector, now - since, now)
    if found is None:
        return _counted(client, selector, since, now)
    first, last, step = found
    running = bool(client.instant(promql_span.holding(selector), now))
    truncated = bool(client.instant(promql_span.holding(selector), now - since))
    began = now - since if truncated else _began(client, selector, first, step)
    return Span(began, None if running else last, now if running else last + step, truncated)


def _began(client: Client, selector: str, first: float, step: float) -> float:
    """Before its first sample, as far back as its counters reach: nobody may have scraped its node for a while.

    What was counted before and is there still (it held GPUs a minute earlier) tells nothing of this time.
    """
    before = client.instant(promql_span.counted(selector), first - step)
    seconds = client.instant(promql_span.began_before(selector), first)
    if before or not seconds:
        return first
    began = first - seconds[0].value
    started = client.instant(promql_span.started(selector, _LOOKBACK), first)
    return min(first, max(began, started[0].value)) if started else began


def _counted(client: Client, selector: str, since: float, now: float) -> Span | None:
    """From its allocation, where that is reported, to the first sample of its counters."""
    found = _times(client, promql_span.counted_since, selector, now - since, now)
    if found is None:
        return None
    first, _, step = found
    started = client.instant(promql_span.started(selector, f"{max(1, int(now - first + step))}s"), now)
    seconds = client.instant(promql_span.counted(selector), first)
    start = started[0].value if started else first - (seconds[0].value if seconds else step)
    return Span(min(start, first), first, first + step, truncated=False)


def _times(
    client: Client, query: promql_span.Since, selector: str, start: float, end: float
) -> tuple[float, float, float] | None:
    """First and last time with a sample, and the exactness of both."""
    coarse = _between(client, query, selector, start, end, _COARSE)
    if coarse is None:
        return None
    first, last, step = coarse
    begins = _between(client, query, selector, max(start, first - step), min(end, first + step), _FINE) or coarse
    ends = _between(client, query, selector, max(start, last - step), min(end, last + step), _FINE) or coarse
    return begins[0], ends[1], max(begins[2], ends[2])


def _between(
    client: Client, query: promql_span.Since, selector: str, start: float, end: float, points: int
) -> tuple[float, float, float] | None:
    step = max(_LEAST_STEP, (end - start) / points)
    lines = client.over_time(query(selector, step), start, end, step)
    times = [time for line in lines for time, _ in line.points]
    return (min(times), max(times), step) if times else None
