"""What a job's processes say of it in their environment: the last resort, for the user can write it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.slurm.job import indices
from exporter.host.text import bounded


@dataclass(frozen=True, slots=True)
class JobEnviron:
    """A job by its own account. `gpus` are GRES indices."""

    job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    gpus: tuple[int, ...] = ()


_WANTED = ("JOB_ID", "JOB_USER", "JOB_ACCOUNT", "JOB_PARTITION", "JOB_NAME", "JOB_GPUS", "STEP_GPUS")
_MOST_BYTES = 1 << 20
_VALUE_BYTES = 512
_ID_DIGITS = 10


def parse(text: bytes) -> Mapping[str, str]:
    """Slurm's variables of an environment block, as far as they are used here; a long value is cut."""
    block = b"\0" + text
    found: dict[str, str] = {}
    for name in _WANTED:
        key = f"\0SLURM_{name}=".encode()
        start = block.find(key) + len(key)
        if start >= len(key):
            value = block[start : start + _VALUE_BYTES].partition(b"\0")[0]
            found[f"SLURM_{name}"] = bounded(value.decode(errors="replace"))
    return found


def job_environ(variables: Mapping[str, str]) -> JobEnviron:
    """SLURM_STEP_GPUS is only asked where the job's own list is missing: per-task binding makes it wrong."""
    job = variables.get("SLURM_JOB_ID", "")
    return JobEnviron(
        job=job if job.isascii() and job.isdecimal() and len(job) <= _ID_DIGITS else "",
        user=variables.get("SLURM_JOB_USER", ""),
        account=variables.get("SLURM_JOB_ACCOUNT", ""),
        partition=variables.get("SLURM_JOB_PARTITION", ""),
        name=variables.get("SLURM_JOB_NAME", ""),
        gpus=indices(variables.get("SLURM_JOB_GPUS") or variables.get("SLURM_STEP_GPUS", "")),
    )


def read(pid: int, procfs: Path) -> JobEnviron:
    """What process `pid` says; empty where it has gone or reading is not permitted (needs SYS_PTRACE)."""
    try:
        with (procfs / str(pid) / "environ").open("rb") as file:
            return job_environ(parse(file.read(_MOST_BYTES)))
    except OSError:
        return JobEnviron()


def merged(job: str, each: Iterable[JobEnviron]) -> JobEnviron | None:
    """What the processes of one job say merged; None where none of them names this job."""
    ours = [environ for environ in each if environ.job == job]
    if not ours:
        return None
    gpus = tuple(sorted({index for environ in ours for index in environ.gpus}))
    first = ours[0]
    return JobEnviron(job, first.user, first.account, first.partition, first.name, gpus)
