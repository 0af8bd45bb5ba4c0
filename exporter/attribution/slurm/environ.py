"""What a job's processes say of it in their environment: the last resort, for the user can write it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.attribution.slurm.job import indices


@dataclass(frozen=True, slots=True)
class JobEnviron:
    """A job by its own account. `gpus` are GRES indices."""

    job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    gpus: tuple[int, ...] = ()


def parse(text: bytes) -> Mapping[str, str]:
    """Slurm's variables of an environment block."""
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if entry.startswith(b"SLURM_"))
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, _, value in pairs}


def job_environ(variables: Mapping[str, str]) -> JobEnviron:
    """SLURM_STEP_GPUS is only asked where the job's own list is missing: per-task binding makes it wrong."""
    job = variables.get("SLURM_JOB_ID", "")
    return JobEnviron(
        job=job if job.isascii() and job.isdecimal() else "",
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
            return job_environ(parse(file.read(1 << 20)))
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
