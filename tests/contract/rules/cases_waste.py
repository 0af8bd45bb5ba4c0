"""Cases of GPU hours that no single workload is told of: chains of short jobs, crash loops, sessions one by one."""

from __future__ import annotations

from tests.contract.rules.case import NODE, Case, fires, silent

_STATES = "gpu_workload_gpu_seconds_total"


def _jobs(user: str, minutes: int, gpus: int = 8, idle: float = 1.0, of: int = 600) -> dict[str, str]:
    """Jobs of one user, one after the other, each of so many minutes and this fraction of them idle."""
    found: dict[str, str] = {}
    for number in range(of // minutes):
        owner = (
            f'workload="slurm:{100 + number}",kind="slurm",slurm_job="{100 + number}",user="{user}",account="vision"'
        )
        before = f"_x{minutes * number - 1} " if number else ""
        found[f"gpu_workload_allocated_gpus{{{NODE},{owner}}}"] = f"{before}{gpus}x{minutes - 1} stale"
        for state, part in (("allocated_idle", idle), ("computing", 1 - idle)):
            values = f"{before}0+{60 * gpus * part:g}x{minutes - 1} stale"
            found[f'{_STATES}{{{NODE},{owner},state="{state}"}}'] = values
    return found


def _crash_loop(user: str) -> dict[str, str]:
    """Pods of one Deployment, a new one every ten minutes."""
    found: dict[str, str] = {}
    for number in range(60):
        owner = f'workload="ml/agent",kind="pod",workload_namespace="ml",workload_pod="agent-{number}",user="{user}"'
        before = f"_x{10 * number - 1} " if number else ""
        found[f"gpu_workload_allocated_gpus{{{NODE},{owner}}}"] = f"{before}4x9 stale"
        found[f'{_STATES}{{{NODE},{owner},state="allocated_unused"}}'] = f"{before}0+240x9 stale"
    return found


CASES: tuple[Case, ...] = (
    fires("GpuOwnerWaste", "jobs of 25 minutes that hold 8 GPUs and idle", "390m", _jobs("eve", 25)),
    fires("GpuOwnerWaste", "a crash loop, by its namespace", "420m", _crash_loop("")),
    silent("GpuOwnerWaste", "jobs of 25 minutes that compute", "390m", _jobs("ada", 25, idle=0.2)),
    silent("GpuOwnerWaste", "one GPU that idles for hours", "390m", _jobs("ada", 25, gpus=1)),
    silent("GpuOwnerWaste", "an hour of idle jobs", "90m", _jobs("ada", 25)),
    silent(
        "GpuOwnerWaste",
        "sessions that the site leaves alone by class are part of the hours alone",
        "390m",
        _jobs("ada", 25, idle=0.5),
    ),
)
