"""Cases of GPU hours that no single workload is told of: chains of short jobs, crash loops, sessions one by one."""

from __future__ import annotations

from tests.contract.rules.case import NODE, Case, fires, silent

_STATES = "gpu_workload_gpu_seconds_total"


def jobs(user: str, minutes: int, gpus: int = 8, idle: float = 1.0, of: int = 600) -> dict[str, str]:
    """Jobs of one user, one after the other, each of so many minutes and this fraction of them idle."""
    found: dict[str, str] = {}
    for number in range(of // minutes):
        owner = (
            f'workload="slurm:{100 + number}",kind="slurm",slurm_job="{100 + number}",user="{user}",account="vision"'
        )
        before = f"_x{minutes * number - 1} " if number else ""
        found[f"gpu_workload_allocated_gpus{{{NODE},{owner}}}"] = f"{before}{gpus}x{minutes - 1} stale"
        for state, part in (("allocated_idle", idle), ("computing", 1 - idle)):
            # Each job a little less than the one before: the letter sorts them.
            values = f"{before}0+{(60 - number / 10) * gpus * part:g}x{minutes - 1} stale"
            found[f'{_STATES}{{{NODE},{owner},state="{state}"}}'] = values
    return found


def crash_loop(user: str) -> dict[str, str]:
    """Pods of one Deployment, a new one every ten minutes."""
    found: dict[str, str] = {}
    for number in range(60):
        owner = f'workload="ml/agent",kind="pod",workload_namespace="ml",workload_pod="agent-{number}",user="{user}"'
        before = f"_x{10 * number - 1} " if number else ""
        found[f"gpu_workload_allocated_gpus{{{NODE},{owner}}}"] = f"{before}4x9 stale"
        found[f'{_STATES}{{{NODE},{owner},state="allocated_unused"}}'] = f"{before}0+240x9 stale"
    return found


def _job(number: str, user: str) -> str:
    return f'workload="slurm:{number}",kind="slurm",slurm_job="{number}",user="{user}"'


_SERVICE = 'workload="ml/web",kind="pod",workload_namespace="ml",user="hal"'


def _told(alert: str, owner: str, **gpu_minutes: float) -> dict[str, str]:
    """An alert about one workload that fires for an hour, with the workload's GPU minutes by state, each minute."""
    labels = f'alertname="{alert}",alertstate="firing",severity="warning",audience="owner",cluster="c1"'
    times = {
        f'{_STATES}{{{NODE},{owner},state="{state}"}}': f"0+{60 * each:g}x120" for state, each in gpu_minutes.items()
    }
    return {f"ALERTS{{{labels},{owner}}}": "_x60 1x60", **times}


_SESSION = {
    f'{_STATES}{{{NODE},{_job("7", "ida")},state="{state}"}}': f"0+{seconds}x400"
    for state, seconds in (("wait_user", 54), ("computing", 6))
}
_ARRAY = [
    _told("GpuUnderutilized", _job(f"100_{task}", "gil"), computing=1 - task / 200, wait_storage=task / 200)
    for task in range(100)
]
_ON_GPU_3 = f'{NODE},gpu="3",uuid="GPU-3"'
_TWO_JOBS = {
    **_told("GpuUnderutilized", _job("9", "fay"), computing=1 / 3, wait_storage=1 / 6),
    **_told("GpuAllocatedIdle", _job("8", "fay"), computing=1 / 3, wait_cpu=2 / 3),
    f'gpu_workload_info{{{NODE},workload="slurm:8",job_name="train"}}': "1x120",
    'gpu:price_per_hour{cluster="c1",model="H200",currency="EUR"}': "2x120",
    f'gpu_info{{{_ON_GPU_3},model="H200"}}': "1x120",
    f"gpu_allocation_ratio{{{_ON_GPU_3},{_job('8', 'fay')}}}": "1x120",
}
"""Of one user. Only the GPU of the first job, 8, is known and has a price."""

CASES: tuple[Case, ...] = (
    fires("GpuOwnerWaste", "two jobs that have an alert, the worst first, with its price", "90m", _TWO_JOBS),
    fires(
        "GpuOwnerWaste",
        "an array of 100 underused tasks: ten are named",
        "90m",
        {name: values for task in _ARRAY for name, values in task.items()},
    ),
    fires(
        "GpuOwnerWaste",
        "a service without requests, told in the letter",
        "90m",
        _told("GpuAllocatedIdle", _SERVICE, wait_requests=1),
    ),
    fires(
        "GpuOwnerWaste",
        "a notebook that nobody used, told in the letter",
        "90m",
        _told("GpuAllocatedIdle", _SERVICE, wait_user=1),
    ),
    fires(
        "GpuOwnerWaste",
        "an underused job that waits for a cause unknown, told in the letter",
        "90m",
        _told("GpuUnderutilized", _job("9", "joe"), computing=1 / 5, wait_other=4 / 5),
    ),
    fires("GpuOwnerWaste", "jobs of 25 minutes that hold 8 GPUs and idle", "390m", jobs("eve", 25)),
    fires("GpuOwnerWaste", "a crash loop, by its namespace", "420m", crash_loop("")),
    silent("GpuOwnerWaste", "jobs of 25 minutes that compute", "390m", jobs("ada", 25, idle=0.2)),
    silent("GpuOwnerWaste", "one GPU that idles for three hours", "180m", jobs("ada", 25, gpus=1)),
    fires("GpuOwnerWaste", "interactive work on one GPU at a tenth", "390m", _SESSION),
    silent("GpuOwnerWaste", "half an hour of idle jobs", "30m", jobs("ada", 25)),
    silent(
        "GpuOwnerWaste",
        "sessions that the site leaves alone by class are part of the hours alone",
        "390m",
        jobs("ada", 25, idle=0.5),
    ),
)
