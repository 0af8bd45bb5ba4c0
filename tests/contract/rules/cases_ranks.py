"""Cases of the alerts about ranks, and about GPUs that wait for somebody or are nearly full."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, NODE, OTHER, OWNER, fires, silent
from tests.contract.rules.cases_workload import SECOND_NODE, allocated, device, ledger


def straggler(values: str, dev: str = DEV) -> dict[str, str]:
    return {f"gpu_workload_straggler_seconds_total{{{dev},{JOB}}}": values}


_BARE = 'workload="process:python3",kind="process",user="ada"'
_BARE_OF_BOB = _BARE.replace("ada", "bob")
_SPINS = "0+240x60"
"""Four GPUs' seconds a minute."""

STRAGGLER = (
    fires(
        "GpuStraggler",
        "one rank waits for storage, the others spin",
        "30m",
        allocated(JOB, "2x60")
        | straggler("0+50x60")
        | straggler("0x60", OTHER)
        | device("wait_storage", "0+50x60")
        | device("computing", "0+10x60")
        | device("wait_collective", "0+55x60", OTHER),
    ),
    fires(
        "GpuStraggler",
        "one rank computes all the time",
        "30m",
        allocated(JOB, "2x60") | straggler("0+57x60") | device("computing", "0+60x60"),
    ),
    fires(
        "GpuStraggler",
        "all spin, and the port next to one GPU is slow",
        "30m",
        allocated(JOB, "2x60")
        | straggler("0+57x60")
        | device("wait_collective", "0+60x60")
        | {
            f'gpu_rdma_port_degraded{{{NODE},device="mlx5_3",port="1",reason="slow"}}': "1x60",
            f'gpu_rdma_port_nearest_gpu_info{{{DEV},device="mlx5_3",port="1",path="PIX"}}': "1x60",
        },
    ),
    fires(
        "GpuStraggler",
        "a slow rank on each of five nodes: one alert",
        "30m",
        {
            name: values
            for number in range(1, 6)
            for name, values in (
                allocated(JOB, "2x60", NODE.replace("n1", f"n{number}"))
                | straggler(f"0+{50 + number}x60", DEV.replace("n1", f"n{number}").replace("GPU-3", f"GPU-{number}"))
            ).items()
        },
    ),
    silent(
        "GpuStraggler",
        "a healthy job that evaluates and writes checkpoints on rank 0, three minutes each",
        "15m 30m 45m 60m",
        allocated(JOB, "2x70") | straggler("0x20 0+55x3 165x20 165+55x3 330x30") | device("computing", "0+55x70"),
    ),
    silent("GpuStraggler", "it has ended", "45m", allocated(JOB, "2x20 0x40") | straggler("0+50x20 1000x40")),
    fires(
        "GpuStraggler",
        "three nodes wait for the fourth",
        "30m",
        {
            name: values
            for number in (1, 2, 3, 4)
            for name, values in (
                allocated(JOB, "4x60", NODE.replace("n1", f"n{number}"))
                | ledger(
                    JOB,
                    NODE.replace("n1", f"n{number}"),
                    wait_collective="0x60" if number == 3 else "0+200x60",
                    wait_cpu="0+180x60" if number == 3 else "0x60",
                    computing="0+40x60",
                )
            ).items()
        },
    ),
    fires(
        "GpuStraggler",
        "a node waits for one without a series of waiting",
        "30m",
        allocated(JOB, "4x60")
        | allocated(JOB, "4x60", SECOND_NODE)
        | ledger(JOB, computing="0+20x60", wait_collective="0+220x60")
        | ledger(JOB, SECOND_NODE, computing="0+40x60", wait_cpu="0+200x60"),
    ),
    silent(
        "GpuStraggler",
        "two nodes that compute alike",
        "30m",
        allocated(JOB, "4x60")
        | allocated(JOB, "4x60", SECOND_NODE)
        | ledger(JOB, computing="0+220x60", wait_collective="0+20x60")
        | ledger(JOB, SECOND_NODE, computing="0+220x60", wait_collective="0+20x60"),
    ),
    silent(
        "GpuStraggler",
        "programs of one name and user, one run of them on each of two nodes",
        "30m",
        allocated(_BARE, "4x60")
        | allocated(_BARE, "4x60", SECOND_NODE)
        | ledger(_BARE, computing="0+20x60", wait_collective="0+220x60")
        | ledger(_BARE, SECOND_NODE, computing="0+240x60"),
    ),
    silent(
        "GpuStraggler",
        "one node whose ranks wait for each other",
        "30m",
        allocated(JOB, "4x60") | ledger(JOB, computing="0+40x60", wait_peer="0+200x60"),
    ),
)

HUNG = (
    fires(
        "GpuWorkloadHung",
        "a job without a series of computing",
        "40m",
        allocated(JOB, "4x60") | ledger(JOB, wait_collective=_SPINS),
    ),
    fires(
        "GpuWorkloadHung",
        "all GPUs of two nodes spin",
        "40m",
        allocated(JOB, "4x60")
        | allocated(JOB, "4x60", SECOND_NODE)
        | ledger(JOB, wait_collective=_SPINS, computing="0x60")
        | ledger(JOB, SECOND_NODE, wait_collective=_SPINS, computing="0x60"),
    ),
    fires(
        "GpuWorkloadHung",
        "one rank waits for the network for ever, the other spins",
        "40m",
        allocated(JOB, "2x60") | ledger(JOB, wait_collective="0+60x60", wait_network="0+60x60", computing="0x60"),
    ),
    fires(
        "GpuWorkloadHung",
        "all GPUs spin, and NCCL names the rank that lags",
        "40m",
        allocated(JOB, "4x60")
        | ledger(JOB, wait_collective=_SPINS, computing="0x60")
        | {
            f'gpu_workload_nccl_status{{{NODE},{JOB},verdict="rank_lags"}}': "1x60",
            f'gpu_workload_nccl_lagging_rank_info{{{NODE},{JOB},rank="9",host="n2",host_gpu="1",pid="77"}}': "1x60",
        },
    ),
    fires(
        "GpuWorkloadHung",
        "ranks of a bare program spin; programs of that name are busy on another node, and here as another user",
        "40m",
        allocated(_BARE, "4x60")
        | allocated(_BARE, "8x60", SECOND_NODE)
        | allocated(_BARE_OF_BOB, "4x60")
        | ledger(_BARE, wait_collective=_SPINS)
        | ledger(_BARE, SECOND_NODE, computing="0+480x60")
        | ledger(_BARE_OF_BOB, computing=_SPINS),
    ),
    silent(
        "GpuWorkloadHung",
        "programs of one name on two nodes: neither spins for long",
        "40m",
        allocated(_BARE, "4x60")
        | allocated(_BARE, "4x60", SECOND_NODE)
        | ledger(_BARE, wait_collective="0+90x60", computing="0+150x60")
        | ledger(_BARE, SECOND_NODE, wait_collective="0+60x60", wait_cpu="0+180x60"),
    ),
    silent(
        "GpuWorkloadHung",
        "all wait for one GPU: that is a straggler",
        "40m",
        allocated(JOB, "32x60") | straggler("0+57x60") | ledger(JOB, wait_collective="0+1850x60", computing="0+18x60"),
    ),
    silent(
        "GpuWorkloadHung",
        "it waits long, and computes",
        "40m",
        allocated(JOB, "4x60") | ledger(JOB, wait_collective="0+200x60", computing="0+40x60"),
    ),
    silent(
        "GpuWorkloadHung",
        "ten minutes in a barrier while rank 0 writes a checkpoint",
        "25m 32m 40m",
        allocated(JOB, "4x60")
        | ledger(JOB, wait_collective="0x20 0+180x10 1800x30", computing="0+230x20 4600x10 4600+230x30"),
    ),
)

DEMAND = (
    fires(
        "GpuAllocatedIdle",
        "a service that nobody asks",
        "760m",
        allocated(OWNER, "1x800") | ledger(OWNER, wait_requests="0+59x800", computing="0+1x800"),
    ),
    silent(
        "GpuAllocatedIdle",
        "a service with its nights",
        "760m",
        allocated(OWNER, "1x800")
        | ledger(OWNER, wait_requests="0+59x400 23600+30x400", computing="0+1x400 400+30x400"),
    ),
    silent(
        "GpuAllocatedIdle",
        "a service that was half busy on two nodes, and is on one now",
        "760m 780m",
        allocated(OWNER, "4x800")
        | allocated(OWNER, "12x700 stale", SECOND_NODE)
        | ledger(OWNER, wait_requests="0+120x800", computing="0+120x800")
        | ledger(OWNER, SECOND_NODE, wait_requests="0+360x700 stale", computing="0+360x700 stale"),
    ),
    fires(
        "GpuAllocatedIdle",
        "a forgotten notebook",
        "300m",
        allocated(OWNER, "1x320") | ledger(OWNER, wait_user="0+60x320"),
    ),
    silent("GpuAllocatedIdle", "a young one", "200m", allocated(OWNER, "1x320") | ledger(OWNER, wait_user="0+60x320")),
    fires(
        "GpuWorkloadMemoryNearLimit",
        "the loader's caches grow",
        "40m",
        allocated(JOB, "1x60")
        | {
            f"gpu_workload_resident_memory_bytes{{{NODE},{JOB}}}": "75+1x60",
            f"gpu_workload_memory_limit_bytes{{{NODE},{JOB}}}": "100x60",
        },
    ),
    silent(
        "GpuWorkloadMemoryNearLimit",
        "far from it",
        "40m",
        allocated(JOB, "1x60")
        | {
            f"gpu_workload_resident_memory_bytes{{{NODE},{JOB}}}": "60x60",
            f"gpu_workload_memory_limit_bytes{{{NODE},{JOB}}}": "100x60",
        },
    ),
)

CASES = (*STRAGGLER, *HUNG, *DEMAND)
