"""Slurm's variables of a job, from the environment of its processes or from the file that its prolog wrote.

An environment is the last resort, because the user can write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from exporter.attribution.devices import DeviceName, device_of
from exporter.attribution.slurm.job import Job, indices
from exporter.core.clock import UnixTime
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.text import bounded, natural

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_WANTED = (
    *(f"SLURM_{name}" for name in ("JOB_ID", "JOB_USER", "JOB_ACCOUNT", "JOB_PARTITION", "JOB_NAME")),
    *("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", _VISIBLE, "SLURM_JOB_NUM_NODES", "SLURM_NTASKS"),
)
_MAX_BYTES = 1 << 20
_VALUE_BYTES = 4096
_YEAR_SECONDS = 365 * 86400.0
"""Time limit that Slurm writes for a job without one."""


@dataclass(frozen=True, slots=True)
class JobVariables:
    """A job as its variables describe it. The id is empty where they name no job."""

    job: Job = field(default_factory=lambda: Job("", gres=None))
    gpus: tuple[int, ...] = ()
    """GRES indexes."""
    devices: tuple[DeviceName, ...] = ()
    """MIG instances by UUID, as Slurm names them: their indexes mean little."""


def parse(text: bytes) -> Mapping[str, str]:
    """Return Slurm's variables of an environment block, as far as they are used here; a long value is cut."""
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


def job_variables(fields: Mapping[str, str]) -> JobVariables:
    """Return the job that variables describe.

    SLURM_STEP_GPUS counts only where the job's own list is missing: binding of tasks makes it wrong.
    """

    def value(name: str) -> str:
        found = fields.get(name, "")
        return "" if found in ("(null)", "N/A") else bounded(found)

    def number(name: str) -> str:
        return found if re.fullmatch(r"[0-9]{1,10}", found := fields.get(name, "")) else ""

    def moment(name: str) -> UnixTime | None:
        found = fields.get(name, "")
        return UnixTime(float(found)) if re.fullmatch(r"[0-9]{1,12}", found) and int(found) else None

    start, end = moment("SLURM_JOB_START_TIME"), moment("SLURM_JOB_END_TIME")
    limit = end - start if start and end else 0.0
    job = Job(
        id=number("SLURM_JOB_ID"),
        user=value("SLURM_JOB_USER"),
        account=value("SLURM_JOB_ACCOUNT"),
        partition=value("SLURM_JOB_PARTITION"),
        name=value("SLURM_JOB_NAME"),
        qos=value("SLURM_JOB_QOS"),
        array_job=number("SLURM_ARRAY_JOB_ID"),
        array_task=number("SLURM_ARRAY_TASK_ID"),
        het_job=number("SLURM_HET_JOB_ID"),
        het_offset=number("SLURM_HET_JOB_OFFSET"),
        time_limit_seconds=limit if limit > 0 and limit != _YEAR_SECONDS else None,
        start_time=start,
        node_count=natural(value("SLURM_JOB_NUM_NODES")),
        task_count=natural(value("SLURM_NTASKS")),
        restarts=natural(value("SLURM_JOB_RESTART_COUNT")),
        gres=None,
    )
    gpus = indices(fields.get("SLURM_JOB_GPUS") or fields.get("SLURM_STEP_GPUS", ""))
    return JobVariables(job, gpus, mig_instances(fields.get(_VISIBLE, "")))


def mig_instances(visible: str) -> tuple[DeviceName, ...]:
    """Return the MIG instances that CUDA_VISIBLE_DEVICES names, as Slurm sets it for them."""
    names = (part.strip() for part in visible[:4096].split(","))
    found = (device_of(name) for name in names if name.startswith("MIG-"))
    return tuple(name for name in found if name)


def read_environ(pid: int, procfs: Path) -> JobVariables:
    """Return the variables of a process; empty if it has ended or may not be read (needs SYS_PTRACE)."""
    try:
        with (procfs / str(pid) / "environ").open("rb") as file:
            return job_variables(parse(file.read(_MAX_BYTES)))
    except OSError:
        return JobVariables()


class JobEnvironments:
    """Environments of processes, each read once, in a thread: the kernel may let their reader wait."""

    def __init__(self, procfs: Path) -> None:
        self._lookup = Lookup[tuple[int, UnixTime], JobVariables]("environ", lambda key: read_environ(key[0], procfs))

    def start(self, threads: Threads) -> None:
        self._lookup.start(threads)

    def stop(self) -> None:
        self._lookup.stop()

    def of(self, processes: Mapping[int, UnixTime]) -> Mapping[int, JobVariables]:
        """Return the variables by pid, given with its start time; empty for one that is still being read."""
        self._lookup.keep(set(processes.items()))
        return {pid: self._lookup.get((pid, start)) or JobVariables() for pid, start in processes.items()}

    def health(self) -> tuple[bool, float] | None:
        """Return whether reading is fast enough, and how long a process has waited to be read."""
        return self._lookup.health()


def merged(job: str, each: Iterable[JobVariables]) -> JobVariables | None:
    """Return the variables of a job's processes in one; None if none of them names this job."""
    ours = [variables for variables in each if variables.job.id == job]
    if not ours:
        return None
    gpus = tuple(sorted({index for variables in ours for index in variables.gpus}))
    devices = tuple(sorted({name for variables in ours for name in variables.devices}, key=str))
    return replace(ours[0], gpus=gpus, devices=devices)
