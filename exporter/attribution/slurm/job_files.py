"""A job's own file, as the prolog of the Slurm kit writes it: `job_ID`, lines of NAME=VALUE with Slurm's names.

It reports more than a file per GPU can: MIG instances by UUID (Slurm puts them in CUDA_VISIBLE_DEVICES), and who the
job is of, also where slurmctld hides other users' jobs (PrivateData=jobs).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.devices import DeviceName, kubernetes_device
from exporter.attribution.slurm.job import Job, indices
from exporter.core.clock import UnixTime
from exporter.host.text import bounded, lines, natural

_NAME = re.compile(r"job_([0-9]{1,10})")
_ID = re.compile(r"[0-9]{1,10}")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_A_YEAR = 365 * 86400.0
_COMPLETE = (
    "SLURM_JOB_USER",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_NAME",
    "SLURM_JOB_RESTART_COUNT",
    "SLURM_JOB_START_TIME",
    "SLURM_JOB_END_TIME",
)
"""Variables of a prolog that is told all: 22.05 and 24.11 tell theirs no name, and slurmctld is asked."""


@dataclass(frozen=True, slots=True)
class JobFile:
    """What one prolog knew: of the job, and of its devices the GRES indices or their names."""

    job: Job
    indices: tuple[int, ...]
    devices: tuple[DeviceName, ...]
    boot: str = ""
    """The machine's boot id when it was written."""
    complete: bool = False
    """Whether slurmctld has nothing to add: not with a Slurm that gives its prolog less, nor for parts of GPUs."""
    node: str = ""
    """What Slurm calls the node, which may not be what the host calls itself."""


def job_of(file: str) -> str:
    """The job a file of that name is of; empty for any other file."""
    match = _NAME.fullmatch(file)
    return match[1] if match else ""


def parse(job: str, text: str) -> JobFile | None:
    """Understand the file of `job`; None where it is not one."""
    fields = dict(line.split("=", 1) for line in lines(text) if "=" in line)
    if fields.get("SLURM_JOB_ID") != job:
        return None
    start, end = _moment(fields, "SLURM_JOB_START_TIME"), _moment(fields, "SLURM_JOB_END_TIME")
    return JobFile(
        Job(
            id=job,
            user=_value(fields, "SLURM_JOB_USER"),
            account=_value(fields, "SLURM_JOB_ACCOUNT"),
            partition=_value(fields, "SLURM_JOB_PARTITION"),
            name=_value(fields, "SLURM_JOB_NAME"),
            qos=_value(fields, "SLURM_JOB_QOS"),
            array_job=_id(fields, "SLURM_ARRAY_JOB_ID"),
            array_task=_id(fields, "SLURM_ARRAY_TASK_ID"),
            het_job=_id(fields, "SLURM_HET_JOB_ID"),
            het_offset=_id(fields, "SLURM_HET_JOB_OFFSET"),
            time_limit_seconds=_limit(start, end),
            start_time=None if start is None else UnixTime(start),
            node_count=natural(_value(fields, "SLURM_JOB_NUM_NODES")),
            restarts=natural(_value(fields, "SLURM_JOB_RESTART_COUNT")),
            gres=None,
        ),
        indices(fields.get("SLURM_JOB_GPUS", "")),
        mig_instances(fields.get("CUDA_VISIBLE_DEVICES", "")),
        fields.get("BOOT_ID", ""),
        complete=all(fields.get(name) for name in _COMPLETE) and not fields.get("SLURM_SHARDS_ON_NODE"),
        node=_value(fields, "SLURMD_NODENAME"),
    )


def _limit(start: float | None, end: float | None) -> float | None:
    """None too where there is no limit: Slurm lets such a job end in a year."""
    limit = end - start if start and end else 0.0
    return limit if limit > 0 and limit != _A_YEAR else None


def mig_instances(visible: str) -> tuple[DeviceName, ...]:
    """MIG instances that CUDA_VISIBLE_DEVICES names, as Slurm sets it for them; anything else is left out."""
    names = (part.strip() for part in visible[:4096].split(","))
    found = (kubernetes_device(name) for name in names if name.startswith("MIG-"))
    return tuple(name for name in found if name)


def this_boot() -> str:
    """The running system's boot id; empty where it is not to be had."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _value(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return "" if value in ("(null)", "N/A") else bounded(value)


def _id(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name, "")
    return value if _ID.fullmatch(value) else ""


def _moment(fields: Mapping[str, str], name: str) -> float | None:
    value = fields.get(name, "")
    return float(value) if re.fullmatch(r"[0-9]{1,12}", value) and int(value) else None
