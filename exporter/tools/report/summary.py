"""The summary of one job from its report and slurmdbd, with the sbatch flags to ask for next time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from exporter.tools.report import words
from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.client import ReportError
from exporter.tools.report.definitions import BUSY, allocated, lost, utilization
from exporter.tools.report.document import Block, Facts, Heading, Paragraph, Table
from exporter.tools.report.model import DeviceUse, Digest, JobReport, Row, worst

_GIB = 1 << 30
_ROOM = 1.2
"""Ratio of what is asked for to what was used."""
_MUCH = 2.0
"""Asked for so many times what would do: worth a word."""
_QUARTER_SECONDS = 900.0


def flags(job: AccountedJob, report: JobReport) -> tuple[str, ...]:
    """Flags that would have done, of those that were asked for much too high. Only for a job that came to its end."""
    if job.state != "COMPLETED" or job.elapsed <= 0:
        return ()
    return (
        *_memory_flag(job, report),
        *_cpus_flag(job),
        *_time_flag(job),
        *(() if report.moved else _gpus_flag(report.devices)),
    )


def _memory_flag(job: AccountedJob, report: JobReport) -> Iterable[str]:
    seen = [node.resident_bytes for node in report.nodes if node.resident_bytes is not None]
    peak = max([*seen, float(job.memory_peak_bytes or 0)])
    if not (job.memory_bytes and job.nodes and peak):
        return
    enough = math.ceil(peak * _ROOM / _GIB)
    if job.memory_bytes / job.nodes > _MUCH * enough * _GIB:
        yield f"--mem={enough}G"


def _cpus_flag(job: AccountedJob) -> Iterable[str]:
    if job.cpu_seconds and job.gpus:
        enough = math.ceil(job.cpu_seconds / job.elapsed / job.gpus * _ROOM)
        if job.cpus / job.gpus > _MUCH * enough:
            yield f"--cpus-per-gpu={enough}"


def _time_flag(job: AccountedJob) -> Iterable[str]:
    enough = math.ceil(job.elapsed * _ROOM / _QUARTER_SECONDS) * _QUARTER_SECONDS
    if job.time_limit and job.time_limit > _MUCH * enough:
        hours, seconds = divmod(int(enough), 3600)
        yield f"--time={hours:02d}:{seconds // 60:02d}:00"


def _gpus_flag(devices: Iterable[DeviceUse]) -> Iterable[str]:
    """Whole GPUs on which no kernel ever ran; not reported ones that were not observed."""
    whole = [device for device in devices if device.share == 1.0]
    used = [device for device in whole if sum(device.hours.get(state, 0.0) for state in BUSY) > 0]
    if whole and used and len(used) < len(whole) and not any(device.hours.get("unobserved") for device in whole):
        yield f"--gpus={len(used)}"


MARGIN_SECONDS = 300.0
"""Seconds around a job's time in which its metrics are looked for."""

Report = Callable[[str, float, float], JobReport]
"""Function from a raw job id to its report, looking back so many seconds from a Unix time; raises ReportError."""

Summary = Mapping[str, Any]

_HEAD = (
    *("job", "user", "state", "time", ">GPUs", ">used", ">GPU h lost", "most on", "CPUs", "memory", "QOS"),
    *(">TRES hours", "next time"),
)
_GOOD_EXIT = "0:0"


def is_of(report: JobReport, job: AccountedJob) -> bool:
    """Return whether slurmdbd's job is the reported one: another cluster's, or an older one, may have its id."""
    if report.name.user and job.user and report.name.user != job.user:
        return False
    begins = job.start is None or job.start <= report.span.until + MARGIN_SECONDS
    return begins and (job.end is None or job.end >= report.span.start - MARGIN_SECONDS)


def summary(name: str, report: JobReport, job: AccountedJob | None) -> Summary:
    """Return what is kept of a job, machine-readable: numbers in base units, None where not known."""
    return {
        "job": name,
        "job_name": report.name.job_name,
        "user": job.user if job else report.name.user,
        "start": report.span.start,
        "end": report.span.end,
        "gpus": report.gpus,
        "gpu_hours": allocated(report.hours),
        "gpu_hours_wasted": lost(report.hours),
        "gpu_hours_by_state": dict(report.hours),
        "utilization": utilization(report.hours),
        "wasted_on": worst(report.hours),
        "energy_joules": report.energy_joules,
        "next_time": list(flags(job, report)) if job else [],
        "slurm": asdict(job) if job else None,
    }


def table(summaries: Iterable[Summary]) -> Table:
    return Table(_HEAD, [_summary_row(each) for each in summaries])


def _summary_row(summary: Summary) -> Sequence[str]:
    slurm: Mapping[str, Any] = summary["slurm"] or {}
    end = summary["end"] or summary["start"]
    elapsed = slurm.get("elapsed") or end - summary["start"]
    gpus = summary["gpus"] or slurm.get("gpus")  # of a job that no scrape saw hold any, slurmdbd knows
    limit, billing, exit_code = slurm.get("time_limit"), slurm.get("billing"), slurm.get("exit_code", "")
    return (
        str(summary["job"]),
        str(summary["user"]),
        f"{slurm.get('state', '')}{'' if exit_code in ('', _GOOD_EXIT) else f' {exit_code}'}",
        f"{words.span(elapsed)}{f' of {words.span(limit)}' if limit else ''}",
        words.count(gpus) if gpus else "-",
        words.percent(summary["utilization"]),
        words.hours(summary["gpu_hours_wasted"]),
        words.title(summary["wasted_on"]) if summary["wasted_on"] else "",
        _cpu_text(slurm, elapsed),
        _memory_text(slurm),
        str(slurm.get("qos", "")),
        "" if billing is None else words.count(billing * elapsed / 3600),
        " ".join(summary["next_time"]),
    )


def _cpu_text(slurm: Mapping[str, Any], elapsed: float) -> str:
    cpus, seconds = slurm.get("cpus"), slurm.get("cpu_seconds")
    if not cpus:
        return ""
    return f"{words.percent(seconds / (cpus * elapsed))} of {cpus}" if seconds is not None and elapsed else str(cpus)


def _memory_text(slurm: Mapping[str, Any]) -> str:
    """Return the memory of a node: the largest process there beside what the job asked for."""
    asked, peak = slurm.get("memory_bytes"), slurm.get("memory_peak_bytes")
    if not asked:
        return ""
    asked /= slurm.get("nodes") or 1
    return f"{words.percent(peak / asked)} of {words.gib(asked)}" if peak is not None else words.gib(asked)


@dataclass(frozen=True, slots=True)
class SlurmPart:
    """The same as blocks to be read and as fields for programs."""

    blocks: Sequence[Block]
    fields: Mapping[str, Any]


def slurm(report: JobReport, job: AccountedJob) -> SlurmPart:
    wanted = flags(job, report)
    blocks: list[Block] = [Heading("Slurm"), slurm_facts(job)]
    if wanted:
        blocks += [Heading("Ask for next time"), Paragraph(" ".join(wanted))]
    return SlurmPart(blocks, {"slurm": asdict(job), "next_time": list(wanted)})


def slurm_jobs(summaries: Sequence[Summary]) -> SlurmPart | None:
    """The jobs of a digest, those that wasted most first; None where there are none."""
    if not summaries:
        return None
    return SlurmPart([Heading("Slurm jobs that wasted most"), table(summaries)], {"slurm_jobs": list(summaries)})


def slurm_facts(job: AccountedJob) -> Facts:
    return Facts(tuple(_job_facts(job)))


def _job_facts(job: AccountedJob) -> Iterable[tuple[str, str]]:
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


class JobAccounts(Protocol):
    def jobs(self, raw_ids: Sequence[str]) -> Mapping[str, AccountedJob]: ...


def jobs(digest: Digest, accounts: JobAccounts, report: Report) -> Sequence[Summary]:
    """Most wasted first. Raises SacctError; a job of which Prometheus does not report (any more) is left out."""
    rows = [row for row in digest.tables.get("workload", ()) if _job_id(row)][:MAX_JOBS]
    known = accounts.jobs([_job_id(row) for row in rows]) if rows else dict[str, AccountedJob]()
    found: list[Summary] = []
    for row in rows:
        job = known.get(_job_id(row))
        if job is None or job.start is None or job.user != row.labels.get("user"):  # another cluster's has its id too
            continue
        until = min(digest.until, (job.end or digest.until) + MARGIN_SECONDS)
        try:
            found.append(summary(job.name, report(job.raw_id, until - job.start + MARGIN_SECONDS, until), job))
        except ReportError:
            continue
    return found


def _job_id(row: Row) -> str:
    """The raw id of a Slurm job; empty for any other workload."""
    kind, _, job = row.labels.get("workload", "").partition(_PREFIX)
    return job if not kind and job.isascii() and job.isdecimal() else ""
