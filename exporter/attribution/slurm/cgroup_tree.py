"""Slurm's jobs of this node as its cgroup tree shows them: job ids, SLUIDs, and the processes inside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from exporter.attribution.cgroup import parse_path
from exporter.host.cgroup import folders, mounts
from exporter.host.text import read_text

_HELPERS = frozenset({"slurmstepd", "slurm_script", "srun"})
"""Command names of Slurm's own processes: a step's manager, a batch script's shell, the client that starts steps."""
_PLACEHOLDER = b"sleep\x00100000000\x00"
"""Command line of the process that keeps the extern step alive; it outlives a slurmstepd that was killed."""
_TITLE = re.compile(rb"slurmstepd: \[([0-9]+)[.+]")
_MAX_PROCESSES = 256
"""Of one job; its first ones say all that is asked of them."""


def job_cgroups(cgroupfs: Path, also: Iterable[str] = ()) -> Mapping[str, str]:
    """Job id or SLUID to its cgroup, a path under the mount (or under the v1 controller's).

    `also` are parents of job cgroups elsewhere, seen in a process's own path (Slurm in a pod, a moved scope).
    """
    found: dict[str, str] = {}
    for mount in mounts(cgroupfs):
        for parent in {*_scopes(mount), *_v1_users(mount), *also}:
            for name in folders(f"{mount}{parent}"):
                path = f"{parent}/{name}"
                seen = parse_path(path)
                if seen.job_path == path:
                    found.setdefault(seen.job or seen.sluid, path)
    return found


def processes(cgroupfs: Path, job_path: str) -> tuple[int, ...]:
    """Pids in the job's cgroup and below, in whichever hierarchy has it."""
    for mount in mounts(cgroupfs):
        pids = [pid for folder, _, files in os.walk(f"{mount}{job_path}") for pid in _pids(folder, files)]
        if pids:
            return tuple(pids[:_MAX_PROCESSES])
    return ()


def occupied(cgroupfs: Path, job_path: str) -> bool:
    """Whether any process is in the job's cgroup or below."""
    for mount in mounts(cgroupfs):
        events = read_text(f"{mount}{job_path}/cgroup.events")
        if "populated 1" in events:
            return True
        if not events and any(_pids(folder, files) for folder, _, files in os.walk(f"{mount}{job_path}")):
            return True  # version 1 has no such file
    return False


def runs_program(cgroupfs: Path, procfs: Path, job_path: str) -> bool:
    """Whether any process in the job's cgroup or below is more than one of Slurm's own helpers."""
    return any(
        not _is_helper(procfs / str(pid), parse_path(folder).step)
        for mount in mounts(cgroupfs)
        for folder, _, files in os.walk(f"{mount}{job_path}")
        for pid in _pids(folder, files)
    )


def _is_helper(process: Path, step: str) -> bool:
    if read_text(f"{process}/comm").strip() in _HELPERS:
        return True
    return step == "extern" and _command_line(process) == _PLACEHOLDER


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def job_of_sluid(cgroupfs: Path, procfs: Path, job_path: str) -> str:
    """The raw job id behind a SLUID, from the title of the step's slurmstepd; empty while none runs."""
    for pid in processes(cgroupfs, job_path):
        match = _TITLE.match(_command_line(procfs / str(pid)))
        if match:
            return match[1].decode()
    return ""


def _scopes(mount: str) -> Iterator[str]:
    """V2: slurmstepd.scope in the root or in any slice (CgroupSlice may move it)."""
    for top in folders(mount):
        if top.endswith("slurmstepd.scope"):
            yield f"/{top}"
        elif top.endswith(".slice"):
            yield from (f"/{top}/{name}" for name in folders(f"{mount}/{top}") if name.endswith("slurmstepd.scope"))


def _v1_users(mount: str) -> Iterator[str]:
    for top in folders(mount):
        if top == "slurm" or top.startswith("slurm_"):
            yield from (f"/{top}/{name}" for name in folders(f"{mount}/{top}") if name.startswith("uid_"))


def _pids(folder: str, files: list[str]) -> list[int]:
    if "cgroup.procs" not in files:
        return []
    try:
        return [int(line) for line in Path(folder, "cgroup.procs").read_text().split()]
    except (OSError, ValueError):
        return []
