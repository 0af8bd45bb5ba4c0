"""The rules asked, in this order, about the time in which a kernel ran."""

from __future__ import annotations

from exporter.ledger import busy_claims, claims
from exporter.ledger.rule import Certainty, Group, Rule

BUSY_RULES: tuple[Rule, ...] = (
    Rule(
        state="wait_collective",
        group=Group.WAITING,
        of_busy_time=True,
        audience="owner",
        certainty=Certainty.LIKELY,
        meaning="One of the workload's GPUs spins in place, as in a collective that waits for a rank.",
        signature=(
            "Busy without a pause, few SMs active, tensor cores, vector pipes and memory at rest, links not full, power"
            " far below what the workload draws when it computes; only where the owner has more than one GPU"
        ),
        advice="Find the rank that lags (gpu_workload_straggler_seconds_total names its GPU); if all spin, it hangs.",
        claim=busy_claims.collective,
        thresholds=("spin_busy", "spin_sm", "spin_rest", "spin_memory", "spin_power", "power_low"),
        needs=(
            ("sm_active", "tensor_active", "vector_active", "dram_active", "power_of_limit"),
            ("memory_activity", "power_of_limit"),
        ),
    ),
    Rule(
        state="throttled_thermal",
        group=Group.BUSY,
        of_busy_time=True,
        audience="oncall",
        certainty=Certainty.CERTAIN,
        meaning="What kernels lost to clocks lowered because the GPU or its memory is too hot.",
        signature="The driver's thermal slowdown counter advances; the share is what the SM clock lacks meanwhile",
        advice="Check cooling: inlet temperature, fans, dust, blocked air flow, neighbours' load.",
        claim=busy_claims.thermal,
        needs=(("throttled_thermal", "sm_clock"),),
    ),
    Rule(
        state="throttled_power_brake",
        group=Group.BUSY,
        of_busy_time=True,
        audience="oncall",
        certainty=Certainty.CERTAIN,
        meaning="What kernels lost to clocks lowered by the server's power brake.",
        signature="The driver's power brake counter advances; the share is what the SM clock lacks meanwhile",
        advice="Check power supplies, their redundancy, and the rack's power budget.",
        claim=busy_claims.power_brake,
        needs=(("throttled_power_brake", "sm_clock"),),
    ),
    Rule(
        state="communication",
        group=Group.BUSY,
        of_busy_time=True,
        audience="owner",
        certainty=Certainty.NONE,
        meaning="Kernels mostly move data between GPUs or over PCIe.",
        signature="SM activity low (without GPM: power low), NVLink or PCIe traffic high",
        advice=(
            "Fewer and larger synchronisations (gradient accumulation, bucket size), overlap, gradient compression;"
            " check that NCCL uses NVLink and the nearest network card; pinned memory for copies from the host."
        ),
        claim=busy_claims.communication,
        thresholds=("sm_low", "link_high", "power_low"),
        needs=(("sm_active", "link_activity"), ("power_of_limit", "link_activity")),
    ),
    Rule(
        state="memory_bound",
        group=Group.BUSY,
        of_busy_time=True,
        audience="owner",
        certainty=Certainty.NONE,
        meaning="Kernels wait for the GPU's own memory.",
        signature="DRAM activity high, tensor activity low",
        advice=(
            "Fuse operations (torch.compile, FlashAttention), use bf16 or fp8, quantise; enlarge the batch where GPU"
            " memory has room."
        ),
        advice_when_full=(
            "GPU memory is full, so the batch cannot grow: fuse operations (torch.compile, FlashAttention), use bf16 or"
            " fp8, quantise, or shard over more GPUs."
        ),
        claim=busy_claims.memory_bound,
        thresholds=("dram_high", "tensor_low"),
        needs=(("dram_active", "tensor_active"),),
    ),
    Rule(
        state="small_kernels",
        group=Group.BUSY,
        of_busy_time=True,
        audience="owner",
        certainty=Certainty.NONE,
        meaning="Kernels run but leave most of the GPU empty.",
        signature="SM activity low (without GPM: power far under its limit and memory at rest)",
        advice=(
            "Enlarge the batch where GPU memory has room; CUDA graphs or torch.compile, mixed precision; a MIG slice"
            " may be enough."
        ),
        advice_when_full=(
            "GPU memory is full, so the batch cannot grow: CUDA graphs or torch.compile, activation checkpointing to"
            " make room, mixed precision."
        ),
        claim=busy_claims.small_kernels,
        thresholds=("sm_low", "power_low", "memory_low"),
        needs=(("sm_active",), ("power_of_limit", "memory_activity")),
    ),
    Rule(
        state="no_tensor_cores",
        group=Group.BUSY,
        of_busy_time=True,
        audience="owner",
        certainty=Certainty.NONE,
        meaning="Kernels compute outside the tensor cores, which are several times faster.",
        signature="FP64, FP32 and FP16 pipes busy, tensor cores at rest",
        advice="Use mixed precision (bf16), TF32, and sizes that are multiples of 8; FP64 only where it is needed.",
        claim=busy_claims.no_tensor_cores,
        thresholds=("vector_high", "spin_rest"),
        needs=(("tensor_active", "vector_active"),),
    ),
    Rule(
        state="busy",
        group=Group.BUSY,
        of_busy_time=True,
        audience="nobody",
        certainty=Certainty.NONE,
        meaning="The GPU works, and nothing above says it could do better.",
        signature="Kernels run, none of the above",
        advice="Nothing to do.",
        claim=claims.rest,
        needs=(("busy",),),
    ),
)
