"""Slurm's accounting in a report on a job, and in a digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from exporter.tools.report import words
from exporter.tools.report.client import ReportError
from exporter.tools.report.document import Block, Facts, Heading, Paragraph
from exporter.tools.report.model import Digest, JobReport, Row
from exporter.tools.report.summaries.sacct import AccountedJob
from exporter.tools.report.summaries.summary import MARGIN, Report, Summary, flags, summary, table


@dataclass(frozen=True, slots=True)
class SlurmPart:
    """The same as blocks to be read and as fields for programs."""

    blocks: Sequence[Block]
    fields: Mapping[str, Any]


def slurm(report: JobReport, job: AccountedJob) -> SlurmPart:
    wanted = flags(job, report)
    blocks: list[Block] = [Heading("Slurm"), Facts(tuple(_facts(job)))]
    if wanted:
        blocks += [Heading("Ask for next time"), Paragraph(" ".join(wanted))]
    return SlurmPart(blocks, {"slurm": asdict(job), "next_time": list(wanted)})


def slurm_jobs(summaries: Sequence[Summary]) -> SlurmPart | None:
    """The jobs of a digest, those that wasted most first; None where there are none."""
    if not summaries:
        return None
    return SlurmPart([Heading("Slurm jobs that wasted most"), table(summaries)], {"slurm_jobs": list(summaries)})


def _facts(job: AccountedJob) -> Iterable[tuple[str, str]]:
    yield "state", f"{job.state}, exit code {job.exit_code}"
    limit = f" of {words.span(job.time_limit)}" if job.time_limit else ""
    yield "time", f"{words.span(job.elapsed)}{limit}"
    if job.cpus:
        used = (
            f", {words.percent(job.cpu_seconds / (job.cpus * job.elapsed))} used"
            if job.cpu_seconds and job.elapsed
            else ""
        )
        yield "CPUs", f"{job.cpus}{used}"
    if job.memory_bytes:
        peak = f", {words.gib(job.memory_peak_bytes)} used at most by a process" if job.memory_peak_bytes else ""
        yield "memory", f"{words.gib(job.memory_bytes)}{peak}"
    yield "QOS", job.qos
    if job.billing is not None:
        yield "billing", f"{words.count(job.billing)} TRES, {words.count(job.billing * job.elapsed / 3600)} TRES hours"


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
