"""What a job's processes say of it in their environment: the last resort, for the user can write it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from exporter.attribution.devices import DeviceName
from exporter.attribution.slurm.job import indices
from exporter.attribution.slurm.prolog_files import mig_instances
from exporter.core.clock import UnixTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.text import bounded, natural


@dataclass(frozen=True, slots=True)
class JobEnviron:
    """A job by its own account. `gpus` are GRES indices."""

    job: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    gpus: tuple[int, ...] = ()
    devices: tuple[DeviceName, ...] = ()
    """By UUID, as Slurm names MIG instances: indices of those mean little."""
    node_count: int | None = None
    task_count: int | None = None


_VISIBLE = "CUDA_VISIBLE_DEVICES"
_WANTED = (
    *(f"SLURM_{name}" for name in ("JOB_ID", "JOB_USER", "JOB_ACCOUNT", "JOB_PARTITION", "JOB_NAME")),
    *("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", _VISIBLE, "SLURM_JOB_NUM_NODES", "SLURM_NTASKS"),
)
_MAX_BYTES = 1 << 20
_VALUE_BYTES = 4096
_ID_DIGITS = 10


def parse(text: bytes) -> Mapping[str, str]:
    """Slurm's variables of an environment block, as far as they are used here; a long value is cut."""
    block = b"\0" + text
    found: dict[str, str] = {}
    for name in _WANTED:
        key = f"\0{name}=".encode()
        start = block.find(key) + len(key)
        if start >= len(key):
            value = block[start : start + _VALUE_BYTES].partition(b"\0")[0]
            shown = value.decode(errors="replace")
            found[name] = shown if name == _VISIBLE else bounded(shown)
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
        devices=mig_instances(variables.get(_VISIBLE, "")),
        node_count=natural(variables.get("SLURM_JOB_NUM_NODES", "")),
        task_count=natural(variables.get("SLURM_NTASKS", "")),
    )


def read_environ(pid: int, procfs: Path) -> JobEnviron:
    """What process `pid` reports; empty where it has gone or reading is not permitted (needs SYS_PTRACE)."""
    try:
        with (procfs / str(pid) / "environ").open("rb") as file:
            return job_environ(parse(file.read(_MAX_BYTES)))
    except OSError:
        return JobEnviron()


class Environs:
    """What processes say, each read once, beside the passes: the kernel may let a reader of an environment wait."""

    def __init__(self, procfs: Path) -> None:
        self._lookup: Lookup[tuple[int, UnixTime], JobEnviron] = Lookup(
            "environ", lambda key: read_environ(key[0], procfs)
        )

    def start(self, threads: Threads) -> None:
        self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def of(self, processes: Mapping[int, UnixTime]) -> Mapping[int, JobEnviron]:
        """By pid, given with its start time; empty for one that is still being read."""
        self._lookup.keep(set(processes.items()))
        return {pid: self._lookup.get((pid, start)) or JobEnviron() for pid, start in processes.items()}

    def health(self) -> tuple[bool, float] | None:
        """Whether reading takes no longer than it should, and for how long a process waits to be read."""
        return self._lookup.health()


def merged(job: str, each: Iterable[JobEnviron]) -> JobEnviron | None:
    """What the processes of one job say merged; None where none of them names this job."""
    ours = [environ for environ in each if environ.job == job]
    if not ours:
        return None
    gpus = tuple(sorted({index for environ in ours for index in environ.gpus}))
    devices = tuple(sorted({name for environ in ours for name in environ.devices}, key=str))
    return replace(ours[0], gpus=gpus, devices=devices)
