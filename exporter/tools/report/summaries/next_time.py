"""What to ask for next time: the flags of sbatch that fit what a job used."""

from __future__ import annotations

import math
from collections.abc import Iterable

from exporter.tools.report.definitions import BUSY
from exporter.tools.report.model import DeviceUse, JobReport
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
    return (*_memory(job, report), *_cpus(job), *_time(job), *(() if report.moved else _gpus(report.devices)))


def _memory(job: AccountedJob, report: JobReport) -> Iterable[str]:
    seen = [node.resident_bytes for node in report.nodes if node.resident_bytes is not None]
    peak = max([*seen, float(job.memory_peak_bytes or 0)])
    if not (job.memory_bytes and job.nodes and peak):
        return
    enough = math.ceil(peak * _ROOM / _GIB)
    if job.memory_bytes / job.nodes > _MUCH * enough * _GIB:
        yield f"--mem={enough}G"


def _cpus(job: AccountedJob) -> Iterable[str]:
    if job.cpu_seconds and job.gpus:
        enough = math.ceil(job.cpu_seconds / job.elapsed / job.gpus * _ROOM)
        if job.cpus / job.gpus > _MUCH * enough:
            yield f"--cpus-per-gpu={enough}"


def _time(job: AccountedJob) -> Iterable[str]:
    enough = math.ceil(job.elapsed * _ROOM / _QUARTER) * _QUARTER
    if job.time_limit and job.time_limit > _MUCH * enough:
        hours, seconds = divmod(int(enough), 3600)
        yield f"--time={hours:02d}:{seconds // 60:02d}:00"


def _gpus(devices: Iterable[DeviceUse]) -> Iterable[str]:
    """Whole GPUs on which no kernel ever ran; not reported ones that were not observed."""
    held = [device for device in devices if device.share == 1.0]
    used = [device for device in held if sum(device.hours.get(state, 0.0) for state in BUSY) > 0]
    if held and used and len(used) < len(held) and not any(device.hours.get("unobserved") for device in held):
        yield f"--gpus={len(used)}"
