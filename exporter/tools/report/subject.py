"""The subject of a report: the workload, pod or Slurm job of a name, and the time in which it had GPUs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from exporter.tools.report import promql
from exporter.tools.report.client import Client
from exporter.tools.report.model import Span
from exporter.tools.report.promql import ONCE

_JOB = re.compile(r"(?P<job>\d+)(?:(?P<sign>[_+])(?P<part>\d+))?(?:\.(?P<step>\w+))?")
_PARTS = {"_": ("slurm_array_job", "slurm_array_task"), "+": ("slurm_het_job", "slurm_het_offset")}
"""Labels by which an element of an array, and a component of a heterogeneous job, is known."""
EXPECTED = "expected NAMESPACE/NAME, NAMESPACE/KIND/NAME, or a job id such as 4711, 4711_3, 4711+1 or 4711.batch"


@dataclass(frozen=True, slots=True)
class Named:
    """Meanings of one name. Series carry raw job ids, so that those of arrays are found by their information."""

    title: str
    selectors: tuple[str, ...]
    """Matchers that select its series; the first that information is there about counts, else the first of all."""
    parts: tuple[str, ...] = ()
    """Matchers of the information about its jobs, each of which may tell some."""
    job: str = ""
    """Name in Slurm's accounting."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Subject of the report. `job` is empty where Slurm's accounting has no one record of it."""

    title: str
    selector: str
    job: str = ""


def named(name: str) -> Named | None:
    """None where the name is of no known form."""
    match = _JOB.fullmatch(name)
    if match:
        return _job_name(match)
    parts = name.split("/")
    if len(parts) in (2, 3) and all(parts):
        itself, namespace, own = promql.matchers(workload=name), parts[0], parts[-1]
        of_any_kind = f"workload=~{promql.quoted(f'{re.escape(namespace)}/[A-Za-z]+/{re.escape(own)}')}"
        pod = promql.matchers(workload_namespace=namespace, workload_pod=own)
        return Named(f"Workload {name}", (itself, of_any_kind, pod) if len(parts) == 2 else (itself,))  # noqa: PLR2004
    kind, colon, rest = name.partition(":")
    return Named(name, (promql.matchers(workload=name),)) if colon and kind and rest else None


def _job_name(match: re.Match[str]) -> Named:
    job, sign, part = match["job"], match["sign"], match["part"]
    own = f"{job}{sign or ''}{part or ''}"
    of_step = f" (step {match['step']} is a part of it)" if match["step"] else ""
    title = f"Slurm job {own}{of_step}"
    if sign:
        of_whole, of_part = _PARTS[sign]
        return Named(title, (), (promql.matchers(**{of_whole: job, of_part: part}),), own)
    wholes = tuple(promql.matchers(**{of_whole: job}) for of_whole, _ in _PARTS.values())
    return Named(title, (promql.matchers(slurm_job=job),), wholes, own)


def selected(client: Client, wanted: Named, cluster: str, window: str, now: float) -> Selected | None:
    """Return what the name means in this Prometheus; None for a part of a job that nothing is known about.

    The id of an array, and of a heterogeneous job, is all of its parts. Raises ReportError.
    """
    jobs = {
        sample.labels.get("slurm_job", "")
        for matchers in wanted.parts
        for sample in client.instant(promql.info(_with_cluster(matchers, cluster), window), now)
    } - {""}
    if jobs:
        if len(jobs) == 1:
            return Selected(wanted.title, _with_cluster(promql.matchers(slurm_job=jobs.pop()), cluster), wanted.job)
        ids = promql.quoted("|".join(sorted(jobs, key=lambda job: (len(job), job))))
        return Selected(f"{wanted.title}: all of its {len(jobs)} jobs", _with_cluster(f"slurm_job=~{ids}", cluster))
    selectors = [_with_cluster(selector, cluster) for selector in wanted.selectors]
    if len(selectors) > 1:
        there = (each for each in selectors if client.instant(promql.info(each, window), now))
        selectors = [next(there, selectors[0])]
    return Selected(wanted.title, selectors[0], wanted.job) if selectors else None


def _with_cluster(selector: str, cluster: str) -> str:
    return ", ".join(part for part in (selector, cluster) if part)


def allocated_to(selector: str) -> str:
    """Allocated GPUs; no point while none is."""
    return f"sum (gpu_workload_allocated_gpus{{{selector}}}) > 0"


Since = Callable[[str, float], str]
"""Makes a query of a selector that sees every sample of the last so many seconds."""


def allocated_since(selector: str, seconds: float) -> str:
    """Allocated GPUs at any sample of the last `seconds`; no point while none was."""
    return f"sum (max_over_time(gpu_workload_allocated_gpus{{{selector}}}[{_milliseconds_text(seconds)}])) > 0"


def counted_since(selector: str, seconds: float) -> str:
    return f"sum (max_over_time(gpu_workload_gpu_seconds_total{{{selector}}}[{_milliseconds_text(seconds)}])) > 0"


def counted(selector: str) -> str:
    """GPU seconds up to now."""
    return f"sum ({ONCE} (gpu_workload_gpu_seconds_total{{{selector}}}))"


def began_before(selector: str) -> str:
    """Return the query for how long its GPUs have been allocated, by its counters."""
    return f"{counted(selector)} / (sum ({ONCE} (gpu_workload_allocated_gpus{{{selector}}})) > 0)"


def started(selector: str, window: str) -> str:
    """Return when the workload was allocated its GPUs, Unix seconds."""
    return f"min (last_over_time(gpu_workload_start_time_seconds{{{selector}}}[{window}]))"


def _milliseconds_text(seconds: float) -> str:
    return f"{math.ceil(seconds * 1000)}ms"


_COARSE, _FINE = 10_000, 2_000
"""Points of a look over the range, and of one at either end of what it found; Prometheus gives 11,000 at most."""
_MIN_STEP_SECONDS = 1.0


def allocated_span(client: Client, selector: str, since: float, now: float) -> Span | None:
    """Found roughly over the whole range, then both ends to the second or so; None where it never had any.

    Each point stands for all samples since the point before, so that no workload is too short to be seen. One that was
    shorter than a scrape interval was never seen with GPUs, but its counters were: they stay for a while when it ends.
    """
    found = _sample_times(client, allocated_since, selector, now - since, now)
    if found is None:
        return _counted_span(client, selector, since, now)
    first, last, step = found
    running = bool(client.instant(allocated_to(selector), now))
    truncated = bool(client.instant(allocated_to(selector), now - since))
    began = now - since if truncated else _workload_start(client, selector, first, step)
    return Span(began, None if running else last, now if running else last + step, truncated)


def _workload_start(client: Client, selector: str, first: float, step: float) -> float:
    """Return its start before its first sample, as far back as its counters reach: its node was perhaps not scraped.

    What was counted before and is there still (GPUs were allocated a minute earlier) tells nothing of this time.
    """
    before = client.instant(counted(selector), first - step)
    seconds = client.instant(began_before(selector), first)
    if before or not seconds:
        return first
    began = first - seconds[0].value
    starts = client.instant(started(selector, "300s"), first)
    return min(first, max(began, starts[0].value)) if starts else began


def _counted_span(client: Client, selector: str, since: float, now: float) -> Span | None:
    """Return the span from its allocation, where that is reported, to the first sample of its counters."""
    found = _sample_times(client, counted_since, selector, now - since, now)
    if found is None:
        return None
    first, _, step = found
    starts = client.instant(started(selector, f"{max(1, int(now - first + step))}s"), now)
    seconds = client.instant(counted(selector), first)
    start = starts[0].value if starts else first - (seconds[0].value if seconds else step)
    return Span(min(start, first), first, first + step, truncated=False)


def _sample_times(
    client: Client, query: Since, selector: str, start: float, end: float
) -> tuple[float, float, float] | None:
    """First and last time with a sample, and the exactness of both."""
    coarse = _times_between(client, query, selector, start, end, _COARSE)
    if coarse is None:
        return None
    first, last, step = coarse
    begins = _times_between(client, query, selector, max(start, first - step), min(end, first + step), _FINE) or coarse
    ends = _times_between(client, query, selector, max(start, last - step), min(end, last + step), _FINE) or coarse
    return begins[0], ends[1], max(begins[2], ends[2])


def _times_between(
    client: Client, query: Since, selector: str, start: float, end: float, points: int
) -> tuple[float, float, float] | None:
    step = max(_MIN_STEP_SECONDS, (end - start) / points)
    lines = client.over_time(query(selector, step), start, end, step)
    times = [time for line in lines for time, _ in line.points]
    return (min(times), max(times), step) if times else None
