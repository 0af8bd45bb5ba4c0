"""Cases of workloads that are many pods at once, or one after the other: one alert for each, whatever its pods."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, fires, silent
from tests.contract.rules.series import share

_RUN = 'job="gpu-exporter",cluster="c1"'
_JOB = 'workload="ml/pretrain",kind="pod",workload_namespace="ml",workload_container="main"'
_SLURM = 'workload="slurm:4711",kind="slurm",slurm_job="4711",user="ada",account="nlp",partition="gpu"'
_CONTROLLER = 'workload="ml/agent",kind="pod",workload_namespace="ml",workload_container="main"'


def _of(node: int, owner: str, pod: str) -> str:
    return f'{_RUN},node="n{node}",instance="n{node}:9836",{owner},workload_pod="{pod}"'


def _job(owner: str = _JOB, pods: str = "pretrain-worker-{}", **states: str) -> dict[str, str]:
    """64 pods of 8 GPUs each, one on a node; without `pods` the job of Slurm on as many nodes."""
    found: dict[str, str] = {}
    for rank in range(64):
        own = _of(rank, owner, pods.format(rank))
        found[f"gpu_workload_allocated_gpus{{{own}}}"] = "8x90"
        found |= {
            f'gpu_workload_gpu_seconds_total{{{own},state="{state}"}}': values for state, values in states.items()
        }
    return found


def _controller(minutes: int, **states: str) -> dict[str, str]:
    """A new pod every 20 minutes on another of three nodes, with 8 GPUs for 19 minutes and a minute of nothing."""
    found: dict[str, str] = {}
    for number in range(minutes // 20):
        before = f"_x{20 * number - 1} " if number else ""
        own = _of(number % 3, _CONTROLLER, f"agent-{number}")
        found[f"gpu_workload_allocated_gpus{{{own}}}"] = f"{before}8x18 stale"
        found |= {
            f'gpu_workload_gpu_seconds_total{{{own},state="{state}"}}': f"{before}{values}x18 stale"
            for state, values in states.items()
        }
    return found


_BY_HAND = 'workload="docker:sandbox",kind="container",workload_container="sandbox"'


def _used(seconds: str, unallocated: str, owner: str = _BY_HAND) -> dict[str, str]:
    """Somebody on a GPU that the job holds."""
    return share(JOB, "1x60") | {
        f"gpu_unallocated_use{{{DEV},{owner}}}": unallocated,
        f"gpu_workload_busy_gpu_seconds_total{{{DEV},{owner}}}": seconds,
    }


def _steps(first: str, after: str) -> dict[str, str]:
    """A new pod every 20 minutes; what the first one counted, and what each of the others."""
    return _controller(120) | {
        f"gpu_workload_steps_total{{{_of(number % 3, _CONTROLLER, f'agent-{number}')}}}": (
            f"{after} stale" if number else f"{first} stale"
        ).replace("AT", f"_x{20 * number - 1}")
        for number in range(6)
    }


_IDLES = _controller(660, allocated_idle="0+480", computing="0+0")

CASES = (
    fires(
        "GpuUnderutilized",
        "a job of 64 pods at 10 %: one alert",
        "60m",
        _job(computing="0+48x90", wait_cpu="0+432x90"),
    ),
    fires(
        "GpuUnderutilized",
        "a Slurm job of 64 nodes at 10 %: one alert",
        "60m",
        _job(_SLURM, pods="", computing="0+48x90", wait_cpu="0+432x90"),
    ),
    fires("GpuAllocatedIdle", "a controller that makes a new pod every 20 minutes and idles on 8 GPUs", "2h", _IDLES),
    fires("GpuAllocatedIdle", "the same after 10 hours, with a new pod just made", "10h1m", _IDLES),
    fires("GpuAllocatedIdle", "the same between two pods", "10h20m", _IDLES),
    silent(
        "GpuAllocatedIdle",
        "a controller whose pods compute half of the time",
        "10h1m 10h20m",
        _controller(660, allocated_idle="0+240", computing="0+240"),
    ),
    fires("GpuWorkloadHung", "new pods that make no step", "59m", _steps("0+9x18", "AT 0x18")),
    fires("GpuWorkloadHung", "the same between two pods", "60m", _steps("0+9x18", "AT 0x18")),
    silent("GpuWorkloadHung", "new pods that all make steps", "59m 1h20m 1h40m", _steps("0+9x18", "AT 0+9x18")),
    fires(
        "GpuUnallocatedUse", "a container started by hand on a GPU that a job holds", "30m", _used("0+30x60", "1x60")
    ),
    silent("GpuUnallocatedUse", "it only looks", "30m 60m", _used("0+1x60", "1x60")),
    silent("GpuUnallocatedUse", "it was given a part", "30m 60m", _used("0+30x60", "_x60")),
    silent(
        "GpuUnallocatedUse",
        "a program of root's, such as the server of MPS",
        "30m 60m",
        _used("0+30x60", "1x60", 'workload="unit:mps.service",kind="unit",user="root"'),
    ),
    silent("GpuAllocatedIdle", "a controller whose last pod ended ten minutes ago", "11h10m", _IDLES),
)
