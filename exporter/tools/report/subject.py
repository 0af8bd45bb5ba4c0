"""What a report is asked for by one name: a workload, a pod, or a Slurm job in any of the ways its users write it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from exporter.tools.report import promql
from exporter.tools.report.client import Client

_JOB = re.compile(r"(?P<job>\d+)(?:(?P<sign>[_+])(?P<part>\d+))?(?:\.(?P<step>\w+))?")
_PARTS = {"_": ("slurm_array_job", "slurm_array_task"), "+": ("slurm_het_job", "slurm_het_offset")}
"""Labels by which an element of an array, and a component of a heterogeneous job, is known."""
EXPECTED = "expected NAMESPACE/NAME, or a job id such as 4711, 4711_3, 4711+1 or 4711.batch"


@dataclass(frozen=True, slots=True)
class Named:
    """What one name may mean. Series carry raw job ids, so that those of arrays are found by their information."""

    title: str
    selectors: tuple[str, ...]
    """Matchers that select its series; the first that information is there about counts, else the first of all."""
    parts: tuple[str, ...] = ()
    """Matchers of the information about its jobs, each of which may tell some."""
    job: str = ""
    """What Slurm's accounting calls it."""


@dataclass(frozen=True, slots=True)
class Selected:
    """What to report on. `job` is empty where Slurm's accounting has no one record of it."""

    title: str
    selector: str
    job: str = ""


def named(name: str) -> Named | None:
    """None where the name is of no known form."""
    match = _JOB.fullmatch(name)
    if match:
        return _job(match)
    namespace, slash, own = name.partition("/")
    if slash and namespace and own and "/" not in own:
        pod = promql.matchers(namespace=namespace, pod=own)
        return Named(f"Workload {name}", (promql.matchers(workload=name), pod))
    kind, colon, rest = name.partition(":")
    return Named(name, (promql.matchers(workload=name),)) if colon and kind and rest else None


def _job(match: re.Match[str]) -> Named:
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
    """What the name means in this Prometheus; None for a part of a job that nothing is known about.

    The id of an array, and of a heterogeneous job, is all of its parts. Raises ReportError.
    """
    jobs = {
        sample.labels.get("slurm_job", "")
        for matchers in wanted.parts
        for sample in client.instant(promql.info(_and(matchers, cluster), window), now)
    } - {""}
    if jobs:
        title = wanted.title if len(jobs) == 1 else f"{wanted.title}: all of its {len(jobs)} jobs"
        return Selected(title, _and(_any(jobs), cluster), wanted.job if len(jobs) == 1 else "")
    selectors = [_and(selector, cluster) for selector in wanted.selectors]
    if len(selectors) > 1:
        there = (each for each in selectors if client.instant(promql.info(each, window), now))
        selectors = [next(there, selectors[0])]
    return Selected(wanted.title, selectors[0], wanted.job) if selectors else None


def _any(jobs: Collection[str]) -> str:
    ids = sorted(jobs, key=lambda job: (len(job), job))
    return promql.matchers(slurm_job=ids[0]) if len(ids) == 1 else f"slurm_job=~{promql.quoted('|'.join(ids))}"


def _and(selector: str, cluster: str) -> str:
    return ", ".join(part for part in (selector, cluster) if part)
