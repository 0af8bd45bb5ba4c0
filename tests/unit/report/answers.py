"""What a Prometheus knows of one job on two nodes, and of a week."""

from __future__ import annotations

NOW = 1_700_000_000.0
BEGAN, ENDED = NOW - 40_000.0, NOW - 4_000.0
"""Ten hours."""

JOB = {
    r"^max by \(cluster, model, profile, pool\) \(avg_over_time\(gpu:price_per_hour": """
        {cluster="north",model="NVIDIA H200",pool="gpu"} 3
        {cluster="north",model="NVIDIA H200",pool="spot"} 99
        {cluster="north",model="NVIDIA H200"} 99
        {cluster="north",model="NVIDIA H200",profile="1g.18gb"} 99
        {cluster="south",model="NVIDIA H200"} 99
        {cluster="north",model="NVIDIA H100 80GB HBM3"} 3
    """,
    r"^sum \(gpu_workload_allocated_gpus": "",
    r"^max_over_time\(sum \(.*gpu_workload_allocated_gpus": "{} 3.5",
    r"^max_over_time\(count": "{} 4",
    r"^count \(last_over_time\(gpu_workload_samples_total": "{} 1",
    r"^topk\(50": """
        {workload="slurm:4600"} 1699000000
        {workload="slurm:4650"} 1699500000
        {workload="slurm:4711"} 1699960000
    """,
    r"by \(workload\).*gpu_workload_allocated_gpus\{": """
        {workload="slurm:4600"} 4
        {workload="slurm:4650"} 4
        {workload="slurm:4711"} 3.5
    """,
    r"by \(workload\).*gpu_workload_gpu_seconds_total": """
        {workload="slurm:4600"} 144000
        {workload="slurm:4650"} 108000
        {workload="slurm:4711"} 126000
    """,
    r"by \(workload\).*gpu_workload_energy_joules_total": """
        {workload="slurm:4600"} 7.2e7
        {workload="slurm:4711"} 5.4e7
    """,
    r"by \(workload\).*gpu_workload_time_to_target_seconds": '{workload="slurm:4600"} 30000',
    r"by \(workload\).*gpu_workload_tokens_total": """
        {workload="slurm:4600"} 4e9
        {workload="slurm:4650"} 6e9
        {workload="slurm:4711"} 4.2e9
    """,
    r"by \(workload\)": "",
    r"gpu_info\[": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a", model="NVIDIA H200"} 1
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b", model="NVIDIA H200"} 1
        {instance="n2:9835", gpu="2", uuid="GPU-c", model="NVIDIA H100 80GB HBM3"} 1
        {instance="n2:9835", gpu="3", uuid="GPU-d", model="NVIDIA H100 80GB HBM3"} 1
    """,
    "gpu_workload_info": '{workload="slurm:4711", job_name="llm", user="ada", account="physics", partition="gpu",'
    ' cluster="north", image="pytorch:2", time_limit_seconds="72000"} 1',
    "gpu_workload_gpu_seconds_total": """
        {node="n1", instance="n1:9835", state="computing"} 50400
        {node="n1", instance="n1:9835", state="wait_cpu"} 14400
        {node="n1", instance="n1:9835", state="allocated_idle"} 7200
        {instance="n2:9835", state="computing"} 36000
        {instance="n2:9835", state="unobserved"} 3600
        {instance="n2:9835", state="wait_peer"} 14400
    """,
    "gpu_workload_busy_gpu_seconds_total": """
        {node="n1", instance="n1:9835"} 54000
        {instance="n2:9835"} 39600
    """,
    "gpu_workload_energy_joules_total": """
        {node="n1", instance="n1:9835"} 3.6e7
        {instance="n2:9835"} 1.8e7
    """,
    "gpu_workload_cpu_seconds_total": """
        {node="n1", instance="n1:9835"} 360000
        {instance="n2:9835"} 90000
    """,
    "gpu_workload_cpu_limit_cores": """
        {node="n1", instance="n1:9835"} 32
        {instance="n2:9835"} 16
    """,
    "gpu_workload_resident_memory_bytes": """
        {node="n1", instance="n1:9835"} 107374182400
        {instance="n2:9835"} 53687091200
    """,
    "gpu_workload_memory_limit_bytes": '{node="n1", instance="n1:9835"} 109521666048',
    "gpu_workload_steps_total": "{} 36000",
    "gpu_workload_tokens_total": "{} 4.2e9",
    "gpu_workload_model_flops_total": "{} 5e19",
    "gpu_peak_bf16_flops": "{} 3.4e15",
    "flops_utilization_bound": "{} 0.55",
    "gpu_workload_progress_ratio": "{} 0.8",
    "gpu_workload_time_to_first_kernel_seconds": "{} 95",
    "gpu_mig_state_seconds_total": """
        {instance="n2:9835", gpu="3", uuid="MIG-e", state="computing"} 9000
        {instance="n2:9835", gpu="3", uuid="MIG-e", state="wait_peer"} 9000
    """,
    "gpu_mig_sm_active_seconds_total": '{instance="n2:9835", gpu="3", uuid="MIG-e"} 7200',
    "gpu_mig_memory_used_bytes": '{instance="n2:9835", gpu="3", uuid="MIG-e"} 21474836480',
    "gpu_mig_memory_total_bytes": '{instance="n2:9835", gpu="3", uuid="MIG-e"} 42949672960',
    "gpu_mig_allocation_ratio": '{instance="n2:9835", gpu="3", uuid="MIG-e", profile="3g.40gb"} 0.5',
    "gpu_state_seconds_total": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a", state="computing"} 28800
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a", state="wait_cpu"} 7200
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b", state="computing"} 21600
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b", state="allocated_idle"} 14400
        {instance="n2:9835", gpu="2", uuid="GPU-c", state="unobserved"} 36000
    """,
    "gpu_sm_active_seconds_total": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 18000
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b"} 9000
    """,
    "gpu_memory_used_bytes": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 146028888064
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b"} 75161927680
        {instance="n2:9835", gpu="2", uuid="GPU-c"} 10737418240
    """,
    "gpu_memory_total_bytes": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 151397597184
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b"} 151397597184
        {instance="n2:9835", gpu="2", uuid="GPU-c"} 85899345920
    """,
    "gpu_power_watts": """
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 612.4
        {instance="n2:9835", gpu="2", uuid="GPU-c"} 288.6
    """,
    "gpu_allocation_ratio": """
        {node="n1", instance="n1:9835", gpu="10", uuid="GPU-b"} 1
        {node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 1
        {instance="n2:9835", gpu="2", uuid="GPU-c"} 0.5
        {instance="n2:9835", gpu="3", uuid="GPU-d"} 1
    """,
    "gpu_workload_allocated_gpus": """
        {node="n1", instance="n1:9835"} 2
        {instance="n2:9835"} 1.5
    """,
}

_SUM = r"sum by \({by}\) \(max without \([\w, ]+\) \(sum_over_time\("
_OF_WORKLOADS = {
    "allocated": rf"^{_SUM}{{level}}:gpu_workload_allocated",
    "used": rf"^\({_SUM}workload:gpu_workload_used",
    "wasted": rf"^{_SUM}{{level}}:gpu_waste",
    "utilization": rf"^{_SUM}{{level}}:gpu_workload_busy",
    "price of waste": r"^sum by \({by}\) \(\(sum by [^:]*:gpu_waste",
}
_STATES = "{level}_state:gpu_owner_gpu_seconds:increase[^[]*state"
_OF_LEVELS = {
    "allocated": rf'^{_SUM}{_STATES}!~"free"',
    "used": rf"^\({_SUM}{{level}}:gpu_owner_busy",
    "wasted": rf'^\({_SUM}{_STATES}=~"(?![^"]*computing)',
    "utilization": rf'^\({_SUM}{_STATES}=~"[^"]*computing',
    "price of waste": rf"^{_SUM}{{level}}_state:gpu_owner_cost:increase[^[]*state",
}


def _level(level: str, rows: str) -> dict[str, str]:
    """Labels, the numbers above and the state most was wasted on, one row a line; `-` for what is not there."""
    by = "cluster, workload, user, workload_namespace, account" if level == "workload" else level
    table = [line.split() for line in rows.strip().splitlines()]
    numbers = {
        pattern.format(by=by, level=level.removeprefix("workload_")): "\n".join(
            f"{{{row[0]}}} {row[i]}" for row in table if row[i] != "-"
        )
        for i, pattern in enumerate((_OF_WORKLOADS if level == "workload" else _OF_LEVELS).values(), 1)
    }
    states = "\n".join(f'{{{row[0]},state="{row[-1]}"}} 1' for row in table if row[-1] != "-")
    return {rf"^topk by \({by}\)": states, **numbers}


WEEK = {
    **_level(
        "account",
        """
        account="physics"   900.5 700.25 120.5  0.82 602.5  wait_storage
        account="biology"   40.25 -      -      -    -      -
        account="chemistry" 0     0      0      -    0      -
        """,
    ),
    **_level(
        "workload_namespace",
        """
        workload_namespace="team-b" 60 20 30 0.4 90 allocated_idle
        workload_namespace="team-a" 70 20 30 0.4 90 allocated_idle
        """,
    ),
    **_level("user", ""),
    **_level(
        "team",
        """
        team="physics" 900.5 - 120.5 - - -
        team="team-a"  70    - 30    - - -
        team="biology" 0.5   - -     - - -
        """,
    ),
    **_level(
        "workload",
        """
        cluster="n",workload="slurm:7",user="ada",account="physics" 900.5 700.25 120.5 0.82 602.5 wait_storage
        cluster="n",workload="team-a/web",workload_namespace="team-a" 70 20 30 0.4 90 allocated_idle
        cluster="n",workload="slurm:8",user="bob",account="biology" 0.5   -      -     -    -     -
        """,
    ),
    r"^sum by \(state\)": """
        {state="allocated_idle"} 30
        {state="wait_storage"} 115
        {state="wait_peer"} 5.5
        {state="wait_cpu"} 0
    """,
}
"""Hours of accounts and so on; rows that are equal in what they wasted come in the order of what they held."""
