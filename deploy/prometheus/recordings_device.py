"""Recording rules of the levels that are made of GPUs: node, cluster and model."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import MODEL, NODE, WHOLE, by, once, record, summed
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.tools.report.promql import WORKLOAD_PRICE, priced

_THERMAL = 'reason=~"sw_thermal|hw_thermal|thermal"'

COPIES = record(
    "node:gpu_exporter_copies:ratio",
    NODE,
    # One row per exporter: of two targets, one may lack the label `node`.
    f"count {by(('instance',))} (gpu_exporter_build_info) * on (cluster, instance) group_right () max {by(NODE)}"
    f' (topk {by(("instance",))} (1, gpu_exporter_build_info{{node!=""}} or on (cluster, instance)'
    " gpu_exporter_build_info))",
    "How many targets scrape the node's exporter: sums over its GPUs are divided by it.",
)


_INFO = "gpu:gpu_info:first"
GPU_STATES = record(
    "gpu_state:gpu_state_seconds:rate5m",
    ("instance", "gpu", "uuid", "state"),
    once(("gpu", "uuid", "state"), "rate(gpu_state_seconds_total[5m]) > 0"),
    "Fraction of its time that each GPU spent in each state that took any.",
)
NODE_MODEL_STATES = record(
    "node_model_state:gpu_state_seconds:rate5m",
    ("instance", "model", "state"),
    f"sum {by(('instance', 'model', 'state'))} ({GPU_STATES.record} * on (cluster, instance, uuid) group_left (model)"
    f" {_INFO} or on (cluster, instance, uuid, state) {GPU_STATES.record})",
    "GPUs' worth of time in each state that took any, of each node and model. Nodes, models and clusters add it up.",
)
GPU_REASONS = record(
    "gpu_reason:gpu_throttled_seconds:rate5m",
    ("instance", "gpu", "uuid", "reason"),
    once(("gpu", "uuid", "reason"), "rate(gpu_throttled_seconds_total[5m]) > 0"),
    "Fraction of time the clocks of a GPU were lowered, by reason, of reasons that took any.",
)
GPU_HEAT = record(
    "gpu:gpu_thermal_throttle:ratio_rate5m",
    ("instance", "gpu", "uuid"),
    f"{once(('gpu', 'uuid'), f'{GPU_REASONS.record}{{{_THERMAL}}}')}"
    # The counters of a GPU that does not answer stand still.
    f" or 0 * {once(('gpu', 'uuid'), f'gpu_throttled_seconds_total{{{_THERMAL}}}')}"
    " and on (cluster, instance, uuid) gpu_up == 1",
    "Fraction of time that the clocks of each GPU that answers were lowered by heat, 0 to 1.",
)
LINK_ERRORS = record(
    "gpu_type:gpu_nvlink_errors:rate5m",
    ("instance", "gpu", "uuid", "type"),
    once(("gpu", "uuid", "type"), "rate(gpu_nvlink_errors_total[5m]) > 0"),
    "NVLink errors per second by type, of GPUs that have any.",
)
PCIE_REPLAYS = record(
    "gpu_uuid:gpu_pcie_replays:rate5m",
    ("instance", "gpu", "uuid"),
    once(("gpu", "uuid"), "rate(gpu_pcie_replays_total[5m]) > 0"),
    "PCIe packets sent again per second, of GPUs that have any.",
)
_ONE_NODE = f" * on (cluster, instance) group_left (node) (topk by (cluster, instance) (1, {COPIES.record}) > bool 0)"
"""Adds the name of the node to what is recorded of its GPUs."""


def _on_nodes(expr: str) -> str:
    """The sum of `expr` on each node, however many targets scrape it."""
    return f"{summed(('instance',), expr)} / on (cluster, instance) group_right () {COPIES.record}"


@dataclass(frozen=True, slots=True)
class Level:
    """A level made of GPUs. `join` adds labels that series of devices lack; `base` is a level to add up."""

    name: str
    labels: tuple[str, ...]
    join: str = ""
    base: str = ""

    def total(self, name: str, expr: str) -> str:
        """The sum of `expr` over the GPUs, however many targets scrape them."""
        if self.base:
            return summed(self.labels, f"{self.base}:{name}")
        if self.join:
            return summed(self.labels, once(("uuid",), expr) + self.join)
        return _on_nodes(expr)

    def of_gpus(self, operation: str, recorded: str) -> str:
        """`operation` over what is recorded of each GPU."""
        if "instance" in self.labels:
            return f"{operation} {by(('instance',))} ({recorded}){_ONE_NODE}"
        return f"{operation} {by(self.labels)} ({recorded}{self.join})"

    def states(self) -> str:
        """The ledger of the level, of that of nodes and models."""
        if self.base:
            return summed((*self.labels, "state"), f"{self.base}_state:gpu_state_seconds:rate5m")
        if self.join:
            return summed((*self.labels, "state"), f'{NODE_MODEL_STATES.record}{{model!=""}}')
        return summed(("instance", "state"), NODE_MODEL_STATES.record) + _ONE_NODE


_ANSWERS = 'gpu_up or on (cluster, instance, uuid) 0 * gpu_fault_timestamp_seconds{fault="lost"}'
"""A GPU that was lost before its exporter started has its fault alone."""
KNOWN = f"({_ANSWERS}) >= bool 0"


def device_count(level: Level) -> tuple[Recording, ...]:
    """Record how many GPUs there are."""
    return (
        record(
            f"{level.name}:gpu_up:count",
            level.labels,
            f"count {by(level.labels)} ({_INFO})" if level.join else level.total("gpu_up:count", KNOWN),
            "GPUs of the exporters, reachable or not.",
        ),
        record(
            f"{level.name}:gpu_up:sum",
            level.labels,
            level.total("gpu_up:sum", "gpu_up" if level.join else _ANSWERS),
            "GPUs that respond.",
        ),
    )


def _in_states(labels: tuple[str, ...], ledger: str, states: tuple[str, ...]) -> str:
    """GPUs' worth of time in some states, 0 where there was none."""
    chosen = summed(labels, f'{ledger}{{state=~"{regex(states)}"}}')
    return f"{chosen} or 0 * {summed(labels, ledger)}"


def device_states(level: Level) -> tuple[Recording, ...]:
    """Record what the GPUs of a level do: what is added up over time."""
    labels, state = level.labels, f"{level.name}_state:gpu_state_seconds:rate5m"
    return (
        record(
            state,
            (*labels, "state"),
            level.states(),
            "The device ledger: GPUs' worth of time in each state that took any. Sums to the GPUs of the level.",
        ),
        record(
            f"{level.name}:gpu_waste:rate5m",
            labels,
            _in_states(labels, state, LOST),
            "GPUs' worth of time that was allocated and lost (idle, waiting or throttled).",
        ),
    )


def device_ratios(level: Level) -> tuple[Recording, ...]:
    """Record for how much of its time a level was used, and slowed down."""
    labels, state = level.labels, f"{level.name}_state:gpu_state_seconds:rate5m"
    busy, observed = f"{level.name}:gpu_busy_seconds:rate5m", summed(labels, f'{state}{{state!="unobserved"}}')
    return (
        record(
            f"{level.name}:gpu_thermal_throttle:ratio_rate5m",
            labels,
            level.of_gpus("avg", GPU_HEAT.record),
            "Mean fraction of time that the clocks were lowered by heat, 0 to 1.",
        ),
        record(
            busy,
            labels,
            _in_states(labels, state, BUSY),
            "GPUs' worth of time in which a kernel ran and did more than wait: 3.5 is three and a half GPUs.",
        ),
        record(
            f"{level.name}:gpu_utilization:ratio_rate5m",
            labels,
            f"{busy} / ({observed} > 0)",
            "Fraction of the observed time in which a kernel ran and did more than wait; none if all are unreachable.",
        ),
    )


_LEVELS = (
    ("gpu_memory_used_bytes:sum", "gpu_memory_used_bytes", "Used GPU memory, bytes."),
    ("gpu_memory_total_bytes:sum", "gpu_memory_total_bytes", "GPU memory, bytes."),
    ("gpu_power_watts:sum", "gpu_power_watts", "Power drawn, watts."),
    ("gpu_energy_joules:rate5m", "rate(gpu_energy_joules_total[5m])", "Energy, joules per second."),
)


def device_load(level: Level) -> tuple[Recording, ...]:
    """Memory and power of a level."""
    return tuple(
        record(f"{level.name}:{name}", level.labels, level.total(name, expr), text) for name, expr, text in _LEVELS
    )


_ALLOCATED_BUT_LOST = summed(
    ("instance",),
    once(("uuid", *KEPT_OWNER_LABELS), "gpu_allocation_ratio unless on (cluster, instance, uuid) gpu_up == 1"),
)


def allocation(level: str, labels: tuple[str, ...], base: str = "") -> tuple[Recording, ...]:
    allocated = f"{level}:gpu_workload_allocated_gpus:sum"
    if base:
        total, free = (summed(labels, f"{base}:{name}") for name in ("gpu_workload_allocated_gpus:sum", "gpu_free:sum"))
    else:
        total = _on_nodes("gpu_workload_allocated_gpus")
        left = f"{level}:gpu_up:sum - {allocated}"
        free = f"clamp_min({left} + on (cluster, instance) group_left () ({_ALLOCATED_BUT_LOST}) or {left}, 0)"
    return (
        record(
            allocated,
            labels,
            f"{total} or 0 * {level}:gpu_up:count",
            "Allocated GPUs by workloads (parts of a GPU count as parts); 0 where none is allocated.",
        ),
        record(f"{level}:gpu_free:sum", labels, free, "Reachable GPUs that are allocated to no workload."),
    )


def reasons(level: str, labels: tuple[str, ...], base: str = "") -> Recording:
    name = "gpu_throttled_seconds:rate5m"
    of_gpus = summed(("instance", "reason"), GPU_REASONS.record) + _ONE_NODE
    return record(
        f"{level}_reason:{name}",
        (*labels, "reason"),
        summed((*labels, "reason"), f"{base}_reason:{name}") if base else of_gpus,
        "GPUs' worth of time the clocks were lowered, by reason, of reasons that took any. "
        "A software power cap is normal at full load.",
    )


INFO = record(
    _INFO,
    ("instance", "uuid", "model"),
    f"max {by(('instance', 'uuid', 'model'))} (topk {by(('instance', 'uuid'))} (1, gpu_info))",
    "1 for each GPU, with its model: one series per GPU however often it is scraped, so that joins with it work.",
)
_OBSERVED, _BUSY = (
    summed(("instance", "uuid"), f"{GPU_STATES.record}{{{matcher}}}")
    for matcher in ('state!="unobserved"', f'state=~"{regex(BUSY)}"')
)
GPU_BUSY = record(
    "gpu:gpu_utilization:ratio_rate5m",
    ("instance", "uuid"),
    f"({_BUSY} or 0 * {summed(('instance', 'uuid'), INFO.record)}) / ({_OBSERVED} > 0)",
    "Fraction of the observed time in which a kernel ran and did more than wait; none while the GPU is unreachable.",
)
_WAITS_FOR_GPUS, _ALL_STATES = (
    summed(("instance", "gpu"), f"{GPU_STATES.record}{matcher}")
    for matcher in ('{state=~"wait_collective|wait_peer"}', "")
)
GPU_RANK_WAIT = record(
    "gpu:gpu_rank_wait:ratio_rate5m",
    ("instance", "gpu"),
    f"{_WAITS_FOR_GPUS} or 0 * {_ALL_STATES}",
    "Fraction of its time that a GPU waits for other GPUs.",
)
INFO_JOIN = f" * on (cluster, instance, uuid) group_left (model) {INFO.record}"
MODEL_ALLOCATION = record(
    "model:gpu_allocation_ratio:sum",
    MODEL,
    summed(MODEL, "workload_model:gpu_allocation_ratio:sum"),
    "GPUs of the model that are allocated (whole GPUs; MIG instances are not in it).",
)

_PART = "cluster, instance, workload, workload_pod, workload_container"
_POOL = (
    f" * on ({_PART}) group_left (pool) (topk by ({_PART}) (1, max by ({_PART}, pool) ("
    'label_replace(gpu_workload_info{label_pool!="",partition=""}, "pool", "$1", "label_pool", "(.*)")'
    ' or label_replace(0 * gpu_allocation_ratio, "pool", "$1", "partition", "(.*)"))) ^ 0)'
)
"""The partition of Slurm, else the label `pool` of the pod."""
PART_MODELS = record(
    "part_model:gpu_allocation_ratio:sum",
    ("instance", *KEPT_OWNER_LABELS, "model", "pool"),
    summed(
        ("instance", *KEPT_OWNER_LABELS, "model", "pool"),
        once(("uuid", *KEPT_OWNER_LABELS), "gpu_allocation_ratio") + INFO_JOIN + _POOL,
    ),
    "Allocated GPUs by a container of a pod, or by a job on one of its nodes, by model.",
)
WORKLOAD_MODELS = record(
    "workload_model:gpu_allocation_ratio:sum",
    (*WHOLE, "model", "pool"),
    summed((*WHOLE, "model", "pool"), PART_MODELS.record),
    "Allocated GPUs, by model: what prices multiply (whole GPUs; MIG instances are not in it).",
)
WORKLOAD_PRICES = record(
    WORKLOAD_PRICE,
    (*WHOLE, "currency"),
    summed((*WHOLE, "currency"), priced(WORKLOAD_MODELS.record, "currency")),
    "Price of an hour of the allocated GPUs, where the site has prices. MIG instances are not in it.",
)
MODEL_PEAK = record(
    "model:gpu_peak_bf16_flops:max",
    MODEL,
    f"max {by(MODEL)} ({once(('uuid',), 'gpu_peak_bf16_flops')}{INFO_JOIN})",
    "BF16 operations a second that a GPU of the model can do at most.",
)
GPU_LINK_ERRORS = (
    record(
        "gpu:gpu_nvlink_errors:rate5m",
        ("instance", "gpu"),
        summed(("instance", "gpu"), LINK_ERRORS.record),
        "NVLink errors per second, of GPUs that have any.",
    ),
    record(
        "gpu:gpu_pcie_replays:rate5m",
        ("instance", "gpu"),
        summed(("instance", "gpu"), PCIE_REPLAYS.record),
        "PCIe packets sent again per second, of places of GPUs that have any.",
    ),
)
HEAT = (
    record(
        "node:gpu_temperature_celsius:max",
        NODE,
        f'max {by(NODE)} (gpu_temperature_celsius{{sensor="gpu"}})',
        "Temperature of the node's hottest GPU, degrees Celsius.",
    ),
    record(
        "node:gpu_temperature_margin_celsius:min",
        NODE,
        f"min {by(NODE)} (gpu_temperature_margin_celsius)",
        "Degrees the GPU closest to its own limit has left before it slows itself down.",
    ),
)
