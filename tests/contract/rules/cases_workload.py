"""Cases of the alerts to owners."""

from __future__ import annotations

from tests.contract.rules.case import DEV, JOB, NODE, OTHER, OWNER, fires, silent
from tests.contract.rules.series import share, twice

SECONDS = "gpu_workload_gpu_seconds_total"
INSTANCE = f'{NODE},gpu="3",uuid="MIG-1",parent_uuid="GPU-3",profile="1g.10gb",gi="7",ci="0"'


def ledger(owner: str, node: str = NODE, **states: str) -> dict[str, str]:
    return {f'{SECONDS}{{{node},{owner},state="{state}"}}': values for state, values in states.items()}


def allocated(owner: str, values: str, node: str = NODE) -> dict[str, str]:
    return {f"gpu_workload_allocated_gpus{{{node},{owner}}}": values}


SECOND_NODE = NODE.replace("n1", "n2")

UP = {f"gpu_exporter_build_info{{{NODE}}}": "1x200"}


JOB_BEFORE = JOB.replace(',partition="gpu"', "")
"""The same job as an exporter of another version names it: with a label less."""
JOB_OF_NOBODY = JOB.replace('user="bob",account="physics",', "")


def _program(user: str) -> str:
    return f'workload="process:python3",kind="process",user="{user}"'


ALTERNATING = (
    " ".join(f"{40 * 6 * turn + 40 * 33 * turn}+6x39 {240 + 1560 * turn}+33x39" for turn in range(3)),
    " ".join(f"{2160 * turn + 1080 * turn}+54x39 {2160 + 3240 * turn}+27x39" for turn in range(3)),
)
"""Busy and waiting seconds of one GPU: 10 % for 40 minutes, 55 % for 40 minutes."""

UNDERUTILIZED = (
    fires(
        "GpuUnderutilized",
        "waits for storage",
        "50m",
        allocated(OWNER, "2x60") | ledger(OWNER, computing="0+24x60", wait_storage="0+84x60", wait_cpu="0+12x60"),
    ),
    fires(
        "GpuUnderutilized",
        "a Slurm job over two nodes, one of them idle",
        "50m",
        allocated(JOB, "8x60")
        | allocated(JOB, "8x60", SECOND_NODE)
        | ledger(JOB, computing="0+240x60", wait_peer="0+240x60")
        | ledger(JOB, SECOND_NODE, allocated_idle="0+480x60"),
    ),
    fires(
        "GpuUnderutilized",
        "counter resets when the exporter restarts",
        "80m",
        allocated(OWNER, "1x90") | ledger(OWNER, computing="0+6x39 0+6x50", wait_cpu="0+54x39 0+54x50"),
    ),
    fires(
        "GpuUnderutilized",
        "alternates between 10 % and 55 % every 40 minutes: one message, still standing in the next turn",
        "150m",
        allocated(OWNER, "1x250") | ledger(OWNER, computing=ALTERNATING[0], wait_cpu=ALTERNATING[1]),
    ),
    fires(
        "GpuUnderutilized",
        "one job on nodes with two versions of the exporter is one job",
        "50m",
        allocated(JOB, "8x60")
        | allocated(JOB_BEFORE, "4x60", SECOND_NODE)
        | ledger(JOB, computing="0+48x60", wait_peer="0+432x60")
        | ledger(JOB_BEFORE, SECOND_NODE, wait_peer="0+480x60"),
    ),
    fires(
        "GpuUnderutilized",
        "two versions hold as many GPUs of one job: what both say of its owner",
        "50m",
        allocated(JOB, "4x60")
        | allocated(JOB_BEFORE, "4x60", SECOND_NODE)
        | ledger(JOB, wait_peer="0+240x60")
        | ledger(JOB_BEFORE, SECOND_NODE, wait_peer="0+240x60"),
    ),
    fires(
        "GpuUnderutilized",
        "a node does not know the user of a job",
        "50m",
        allocated(JOB, "4x60")
        | allocated(JOB_OF_NOBODY, "4x60", SECOND_NODE)
        | ledger(JOB, wait_peer="0+240x60")
        | ledger(JOB_OF_NOBODY, SECOND_NODE, wait_peer="0+240x60"),
    ),
    fires(
        "GpuUnderutilized",
        "programs of one name, of two people on two nodes: neither is named",
        "50m",
        allocated(_program("ada"), "1x60")
        | allocated(_program("bob"), "2x60", SECOND_NODE)
        | ledger(_program("ada"), computing="0+60x60")
        | ledger(_program("bob"), SECOND_NODE, wait_other="0+240x60"),
    ),
    silent(
        "GpuUnderutilized",
        "half busy",
        "50m 90m",
        allocated(OWNER, "2x90") | ledger(OWNER, computing="0+60x90", wait_cpu="0+60x90"),
    ),
    silent(
        "GpuUnderutilized",
        "at full load under a power cap",
        "50m",
        allocated(OWNER, "2x60")
        | ledger(OWNER, computing="0+120x60")
        | {f'gpu_throttled_seconds_total{{{DEV},reason="sw_power_cap"}}': "0+60x60"},
    ),
    silent(
        "GpuUnderutilized",
        "a starting job that loads its data",
        "45m 65m",
        allocated(OWNER, "_x30 1x60") | ledger(OWNER, computing="_x30 0x60", wait_storage="_x30 0+60x60"),
    ),
    silent(
        "GpuUnderutilized",
        "a job that has ended",
        "46m 60m",
        allocated(OWNER, "1x37 0x23") | ledger(OWNER, computing="0x60", wait_cpu="0+60x37 2220x23"),
    ),
    silent(
        "GpuUnderutilized",
        "a pause of ten minutes to write a checkpoint",
        "45m 52m 60m",
        allocated(OWNER, "1x90")
        | ledger(OWNER, computing="0+54x40 2160x10 2160+54x40", wait_other="0+6x40 240+60x10 840+6x40"),
    ),
    silent("GpuUnderutilized", "free GPUs", "90m", {f'gpu_state_seconds_total{{{DEV},state="free"}}': "0+60x90"}),
    silent(
        "GpuUnderutilized",
        "readings are missing, so nothing is known",
        "60m",
        allocated(OWNER, "1x60")
        | ledger(OWNER, computing="0+45x20 900x40", wait_cpu="0+15x20 300x40", unobserved="0x20 0+60x40"),
    ),
)


def device(state: str, values: str, dev: str = DEV) -> dict[str, str]:
    return {f'gpu_state_seconds_total{{{dev},state="{state}"}}': values}


ALLOCATED_IDLE = (
    fires(
        "GpuAllocatedIdle",
        "one GPU of two, a crashed rank",
        "90m",
        device("allocated_idle", "0+60x100")
        | device("computing", "0+60x100", OTHER)
        | device("allocated_idle", "0x100", OTHER)
        | share(JOB, "1x100")
        | share(JOB, "1x100", OTHER)
        | allocated(JOB, "2x100"),
    ),
    fires(
        "GpuAllocatedIdle",
        "one GPU, of a node that two jobs scrape, counts once",
        "90m",
        twice(device("allocated_idle", "0+60x100") | share(JOB, "1x100") | allocated(JOB, "1x100")),
    ),
    fires(
        "GpuAllocatedIdle",
        "a MIG instance",
        "90m",
        {
            f'gpu_mig_state_seconds_total{{{INSTANCE},state="allocated_idle"}}': "0+60x100",
            f"gpu_mig_allocation_ratio{{{INSTANCE},{OWNER}}}": "1x100",
        }
        | allocated(OWNER, "0.5x100"),
    ),
    silent(
        "GpuAllocatedIdle",
        "a MIG instance that is busy",
        "90m",
        {
            f'gpu_mig_state_seconds_total{{{INSTANCE},state="allocated_idle"}}': "0x100",
            f"gpu_mig_allocation_ratio{{{INSTANCE},{OWNER}}}": "1x100",
        },
    ),
    silent(
        "GpuAllocatedIdle",
        "a MIG instance taken over from an idle owner",
        "90m",
        {
            f'gpu_mig_state_seconds_total{{{INSTANCE},state="allocated_idle"}}': "0+60x100",
            f"gpu_mig_allocation_ratio{{{INSTANCE},{OWNER}}}": "1x60 _x40",
            f"gpu_mig_allocation_ratio{{{INSTANCE},{JOB}}}": "_x60 1x40",
        },
    ),
    silent(
        "GpuAllocatedIdle",
        "not for long enough yet",
        "62m",
        device("allocated_idle", "0+60x100") | share(OWNER, "1x100"),
    ),
    silent("GpuAllocatedIdle", "a free GPU", "90m", device("free", "0+60x100") | device("allocated_idle", "0x100")),
    silent(
        "GpuAllocatedIdle",
        "the owner took the GPU over from an idle one half an hour ago",
        "70m 90m",
        device("allocated_idle", "0+60x100") | share(OWNER, "1x60 _x40") | share(JOB, "_x60 1x40"),
    ),
    silent(
        "GpuAllocatedIdle",
        "processes come and go every ten minutes",
        "90m",
        device("allocated_idle", " ".join(f"{n * 300}x5 {n * 300}+60x5" for n in range(10))) | share(OWNER, "1x110"),
    ),
    silent(
        "GpuAllocatedIdle",
        "the owner has let go",
        "91m",
        device("allocated_idle", "0+60x88 5280x12") | share(OWNER, "1x88 _x12"),
    ),
)


def steps(values: str) -> dict[str, str]:
    return {f"gpu_workload_steps_total{{{NODE},{OWNER}}}": values}


def evaluates(phase: str, busy: str) -> dict[str, str]:
    """A workload without steps since minute 50, with the seconds of its evaluation and of its GPU."""
    return (
        steps("0+9x50 450x60")
        | allocated(OWNER, "1x110")
        | ledger(OWNER, computing=busy, allocated_idle="0+1x110")
        | {f'gpu_workload_phase_seconds_total{{{NODE},{OWNER},phase="evaluation"}}': phase}
    )


STALLED = (
    fires("GpuWorkloadHung", "no step for half an hour", "95m", steps("0+9x50 450x60") | allocated(OWNER, "1x110")),
    fires(
        "GpuWorkloadHung",
        "no step since the middle",
        "95m",
        steps("0+9x50 450x60")
        | allocated(OWNER, "1x110")
        | {f"gpu_workload_progress_ratio{{{NODE},{OWNER}}}": "0+0.01x50 0.5x60"},
    ),
    silent("GpuWorkloadHung", "not for long enough yet", "82m", steps("0+9x50 450x60") | allocated(OWNER, "1x110")),
    silent("GpuWorkloadHung", "compiling before the first step", "95m", steps("0x110") | allocated(OWNER, "1x110")),
    silent(
        "GpuWorkloadHung",
        "a session whose user looks at what the steps gave",
        "95m",
        steps("0+9x50 450x60")
        | allocated(OWNER, "1x110")
        | {f'gpu_workload_info{{{NODE},{OWNER},class="interactive"}}': "1x110"},
    ),
    silent("GpuWorkloadHung", "slow steps", "95m", steps("1x20 2x20 3x20 4x20 5x20") | allocated(OWNER, "1x110")),
    silent("GpuWorkloadHung", "an evaluation of an hour that it reports", "95m", evaluates("0x50 0+60x60", "0+50x110")),
    fires("GpuWorkloadHung", "an evaluation that hangs", "95m", evaluates("0x50 0+60x60", "0+50x60 3000x50")),
    fires("GpuWorkloadHung", "nothing since its evaluation", "95m", evaluates("0x50 0+60x20 1200x40", "0+50x110")),
    silent("GpuWorkloadHung", "it has ended", "95m", steps("0+9x50 450x60") | allocated(OWNER, "1x50 0x60")),
    silent(
        "GpuWorkloadHung",
        "it is done and holds on for evaluation",
        "95m",
        steps("0+9x50 450x60")
        | allocated(OWNER, "1x110")
        | {f"gpu_workload_progress_ratio{{{NODE},{OWNER}}}": "0+0.02x50 1x60"},
    ),
)

CASES = (*UNDERUTILIZED, *ALLOCATED_IDLE, *STALLED)
