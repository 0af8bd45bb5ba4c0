"""The summary of one job from its report and slurmdbd, with the sbatch flags to ask for next time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from exporter.tools.report import words
from exporter.tools.report.definitions import BUSY, held, lost, utilization
from exporter.tools.report.document import Table
from exporter.tools.report.model import DeviceUse, JobReport, worst
from exporter.tools.report.summaries.sacct import AccountedJob

_GIB = 1 << 30
_ROOM = 1.2
"""Of what was used: so much more is asked for."""
_MUCH = 2.0
"""Asked for so many times what would do: worth a word."""
_QUARTER = 900.0


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
    enough = math.ceil(job.elapsed * _ROOM / _QUARTER) * _QUARTER
    if job.time_limit and job.time_limit > _MUCH * enough:
        hours, seconds = divmod(int(enough), 3600)
        yield f"--time={hours:02d}:{seconds // 60:02d}:00"


def _gpus_flag(devices: Iterable[DeviceUse]) -> Iterable[str]:
    """Whole GPUs on which no kernel ever ran; not reported ones that were not observed."""
    held = [device for device in devices if device.share == 1.0]
    used = [device for device in held if sum(device.hours.get(state, 0.0) for state in BUSY) > 0]
    if held and used and len(used) < len(held) and not any(device.hours.get("unobserved") for device in held):
        yield f"--gpus={len(used)}"


MARGIN = 300.0
"""Seconds around a job's time in which its metrics are looked for."""

Report = Callable[[str, float, float], JobReport]
"""Of a raw job id, looking back so many seconds from a Unix time; raises ReportError."""

Summary = Mapping[str, Any]

_HEAD = (
    *("job", "user", "state", "time", ">GPUs", ">used", ">GPU h lost", "most on", "CPUs", "memory", "QOS"),
    *(">TRES hours", "next time"),
)
_GOOD_EXIT = "0:0"


def is_of(report: JobReport, job: AccountedJob) -> bool:
    """Whether slurmdbd's job is the reported one: another cluster's, and one before the ids began anew, have its id."""
    if report.name.user and job.user and report.name.user != job.user:
        return False
    begins = job.start is None or job.start <= report.span.until + MARGIN
    return begins and (job.end is None or job.end >= report.span.start - MARGIN)


def summary(name: str, report: JobReport, job: AccountedJob | None) -> Summary:
    """What is kept of a job, machine-readable: numbers in base units, None where not known."""
    return {
        "job": name,
        "job_name": report.name.job_name,
        "user": job.user if job else report.name.user,
        "start": report.span.start,
        "end": report.span.end,
        "gpus": report.gpus,
        "gpu_hours": held(report.hours),
        "gpu_hours_wasted": lost(report.hours),
        "gpu_hours_by_state": dict(report.hours),
        "utilization": utilization(report.hours),
        "wasted_on": worst(report.hours),
        "energy_joules": report.energy_joules,
        "next_time": list(flags(job, report)) if job else [],
        "slurm": asdict(job) if job else None,
    }


def table(summaries: Iterable[Summary]) -> Table:
    return Table(_HEAD, [_row(each) for each in summaries])


def _row(summary: Summary) -> Sequence[str]:
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
        _cpus(slurm, elapsed),
        _memory(slurm),
        str(slurm.get("qos", "")),
        "" if billing is None else words.count(billing * elapsed / 3600),
        " ".join(summary["next_time"]),
    )


def _cpus(slurm: Mapping[str, Any], elapsed: float) -> str:
    cpus, seconds = slurm.get("cpus"), slurm.get("cpu_seconds")
    if not cpus:
        return ""
    return f"{words.percent(seconds / (cpus * elapsed))} of {cpus}" if seconds is not None and elapsed else str(cpus)


def _memory(slurm: Mapping[str, Any]) -> str:
    """Of a node: the largest process there beside what the job asked for."""
    asked, peak = slurm.get("memory_bytes"), slurm.get("memory_peak_bytes")
    if not asked:
        return ""
    asked /= slurm.get("nodes") or 1
    return f"{words.percent(peak / asked)} of {words.gib(asked)}" if peak is not None else words.gib(asked)
