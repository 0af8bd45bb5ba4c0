"""States of running kernels, by the activity of the GPU's units, and what they lose to lowered clocks."""

from __future__ import annotations

from exporter.ledger.states.state import Certainty, Evidence, Limits, State, Threshold, at_least, is_below

SM_LOW = Threshold("sm_low", 0.5, "SM activity, of the busy time, below which the SMs are mostly empty.")
LINK_HIGH = Threshold("link_high", 0.2, "NVLink or PCIe traffic, of what the link can carry, that is high.")
POWER_LOW = Threshold("power_low", 0.4, "Power over its limit below which a busy GPU without GPM is hardly loaded.")
DRAM_HIGH = Threshold("dram_high", 0.5, "DRAM activity, of the busy time, that is high.")
TENSOR_LOW = Threshold("tensor_low", 0.3, "Tensor activity, of the busy time, that is low.")
MEMORY_LOW = Threshold("memory_low", 0.3, "Memory activity, of the busy time, that is low on a GPU without GPM.")
VECTOR_HIGH = Threshold(
    "vector_high",
    0.3,
    "Activity of the FP64, FP32 and FP16 pipes, of the busy time, that is high where tensor cores rest.",
)
SPIN_BUSY = Threshold("spin_min_busy_ratio", 0.95, "Busy part of a cycle from which a GPU can spin in a collective.")
SPIN_REST = Threshold(
    "spin_max_tensor_activity", 0.03, "Tensor activity of a spinning GPU, at most; vector: 0.3 of it."
)


def communication_claim(evidence: Evidence, limits: Limits) -> float:
    signals = evidence.signals
    busy_links = at_least(evidence.of_busy(signals.link_activity), limits[LINK_HIGH])
    if signals.sm_active is not None:
        return float(busy_links and is_below(evidence.of_busy(signals.sm_active), limits[SM_LOW]))
    return float(busy_links and _draws_little(evidence, limits))


def _draws_little(evidence: Evidence, limits: Limits) -> bool:
    """Compare as if kernels drew all power: on average a GPU that works hard for a third of the time draws little."""
    return is_below(evidence.of_busy(evidence.signals.power_of_limit), limits[POWER_LOW])


def memory_bound_claim(evidence: Evidence, limits: Limits) -> float:
    dram, tensor = evidence.of_busy(evidence.signals.dram_active), evidence.of_busy(evidence.signals.tensor_active)
    return float(at_least(dram, limits[DRAM_HIGH]) and is_below(tensor, limits[TENSOR_LOW]))


def small_kernels_claim(evidence: Evidence, limits: Limits) -> float:
    """Return 1 where the SMs are mostly empty: by GPM, else by power far under its limit and memory at rest."""
    signals = evidence.signals
    if signals.sm_active is not None:
        return float(is_below(evidence.of_busy(signals.sm_active), limits[SM_LOW]))
    at_rest = is_below(evidence.of_busy(signals.memory_activity), limits[MEMORY_LOW])
    return float(at_rest and _draws_little(evidence, limits))


def no_tensor_cores_claim(evidence: Evidence, limits: Limits) -> float:
    tensor, vector = evidence.of_busy(evidence.signals.tensor_active), evidence.of_busy(evidence.signals.vector_active)
    return float(tensor is not None and tensor <= limits[SPIN_REST] and at_least(vector, limits[VECTOR_HIGH]))


COMMUNICATION = State(
    name="communication",
    title="Communication",
    step="Fewer, larger synchronisations",
    colour="#3066D3",
    audience="owner",
    certainty=Certainty.NONE,
    meaning="Kernels mostly move data between GPUs or over PCIe.",
    signature="SM activity low (without GPM: power low), NVLink or PCIe traffic high",
    advice=(
        "Fewer and larger synchronisations (gradient accumulation, bucket size), overlap, gradient compression;"
        " check that NCCL uses NVLink and the nearest network card; pinned memory for copies from the host."
    ),
    of_time="busy",
    needs=(("sm_active", "link_activity"), ("power_of_limit", "link_activity")),
    thresholds=(SM_LOW, LINK_HIGH, POWER_LOW),
    claim=communication_claim,
)

MEMORY_BOUND = State(
    name="memory_bound",
    title="Memory bound",
    step="Fuse operations, use bf16 or fp8",
    colour="#1690EC",
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
    of_time="busy",
    needs=(("dram_active", "tensor_active"),),
    thresholds=(DRAM_HIGH, TENSOR_LOW),
    claim=memory_bound_claim,
)

LOW_SM_ACTIVITY = State(
    name="low_sm_activity",
    title="Low SM activity",
    step="Larger batches, CUDA graphs",
    colour="#9AFBD8",
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
    of_time="busy",
    needs=(("sm_active",), ("power_of_limit", "memory_activity")),
    thresholds=(SM_LOW, POWER_LOW, MEMORY_LOW),
    claim=small_kernels_claim,
)

TENSOR_CORES_UNUSED = State(
    name="tensor_cores_unused",
    title="Tensor cores unused",
    step="Use mixed precision (bf16)",
    colour="#95C8AD",
    audience="owner",
    certainty=Certainty.NONE,
    meaning="Kernels compute outside the tensor cores, which are several times faster.",
    signature="FP64, FP32 and FP16 pipes busy, tensor cores at rest",
    advice="Use mixed precision (bf16), TF32, and sizes that are multiples of 8; FP64 only where it is needed.",
    of_time="busy",
    needs=(("tensor_active", "vector_active"),),
    thresholds=(VECTOR_HIGH, SPIN_REST),
    claim=no_tensor_cores_claim,
)


def _clock_losses(evidence: Evidence) -> tuple[float, float]:
    """Return what heat and the power brake cost: what the clocks lack, times how long each lowered them."""
    heat = evidence.of_busy(evidence.signals.throttled_thermal) or 0.0
    brake = evidence.of_busy(evidence.signals.throttled_power_brake) or 0.0
    lost = (evidence.clock_lost or 0.0) / max(1.0, heat + brake)
    return lost * heat, lost * brake


THROTTLED_THERMAL = State(
    name="throttled_thermal",
    title="Throttled by heat",
    step="Check cooling",
    colour="#90090C",
    audience="oncall",
    certainty=Certainty.CERTAIN,
    meaning="What kernels lost to clocks lowered because the GPU or its memory is too hot.",
    signature="The driver's thermal slowdown counter advances; what the SM clock lacks meanwhile, times how long",
    advice="Check cooling: inlet temperature, fans, dust, blocked air flow, neighbours' load.",
    of_time="busy",
    needs=(("throttled_thermal", "sm_clock"),),
    claim=lambda evidence, _: _clock_losses(evidence)[0],
)

THROTTLED_POWER_BRAKE = State(
    name="throttled_power_brake",
    title="Power brake",
    step="Check the power supplies",
    colour="#5B1A4D",
    audience="oncall",
    certainty=Certainty.CERTAIN,
    meaning="What kernels lost to clocks lowered by the server's power brake.",
    signature="The driver's power brake counter advances; what the SM clock lacks meanwhile, times how long",
    advice="Check power supplies, their redundancy, and the rack's power budget.",
    of_time="busy",
    needs=(("throttled_power_brake", "sm_clock"),),
    claim=lambda evidence, _: _clock_losses(evidence)[1],
)
