"""The Slurm jobs of a digest: what slurmdbd has of those that wasted most, and what to ask for next time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from exporter.tools.report.failure import ReportError
from exporter.tools.report.model import Digest, Row
from exporter.tools.report.summaries.sacct import AccountedJob
from exporter.tools.report.summaries.summary import MARGIN, Report, Summary, summary

MAX_JOBS = 30
"""Jobs of a digest that are looked into, as rows of its tables."""
_PREFIX = "slurm:"


class Accounts(Protocol):
    def jobs(self, raw_ids: Sequence[str]) -> Mapping[str, AccountedJob]: ...


def jobs(digest: Digest, accounts: Accounts, report: Report) -> Sequence[Summary]:
    """Most wasted first. Raises SacctError; a job of which Prometheus does not report (any more) is left out."""
    rows = [row for row in digest.tables.get("workload", ()) if _id(row)][:MAX_JOBS]
    known = accounts.jobs([_id(row) for row in rows]) if rows else dict[str, AccountedJob]()
    found: list[Summary] = []
    for row in rows:
        job = known.get(_id(row))
        if job is None or job.start is None or job.user != row.labels.get("user"):  # another cluster's has its id too
            continue
        until = min(digest.until, (job.end or digest.until) + MARGIN)
        try:
            found.append(summary(job.name, report(job.raw_id, until - job.start + MARGIN, until), job))
        except ReportError:
            continue
    return found


def _id(row: Row) -> str:
    """The raw id of a Slurm job; empty for any other workload."""
    kind, _, job = row.labels.get("workload", "").partition(_PREFIX)
    return job if not kind and job.isascii() and job.isdecimal() else ""
