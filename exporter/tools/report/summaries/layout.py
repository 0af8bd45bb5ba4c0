"""What Slurm's accounting adds to a report on a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from exporter.tools.report import words
from exporter.tools.report.document import Block, Facts, Heading, Paragraph
from exporter.tools.report.model import JobReport
from exporter.tools.report.summaries.next_time import flags
from exporter.tools.report.summaries.sacct import AccountedJob
from exporter.tools.report.summaries.summary import Summary, table


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
