"""Recording rules: what fleet dashboards ask, reduced once a minute to one series per node, model, owner or cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_progress import PROGRESS
from deploy.prometheus.recordings_serving import SERVING
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.attribution.owner import OWNER_LABELS

INTERVAL = "1m"
"""Of the recording groups. `sum_over_time(x[range]) / 60` is then GPU hours: `…:gpu_waste_hours:sum1d` relies on it."""

NODE = ("node", "instance")
WHOLE = tuple(label for label in OWNER_LABELS if label not in {"pod", "container"})
"""Labels of a whole workload: one series for all its pods and nodes, which pods that come and go do not renew."""
MODEL = ("model",)
_THERMAL = 'reason=~"sw_thermal|hw_thermal|thermal"'
_DEVICE = ("node", "instance", "gpu", "uuid")


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    interval: str
    rules: tuple[Recording, ...]


def by(labels: Iterable[str]) -> str:
    return f"by ({', '.join(('cluster', *labels))})"


def _sum(labels: Iterable[str], expr: str) -> str:
    return f"sum {by(labels)} ({expr})"


def _record(record: str, labels: tuple[str, ...], expr: str, help: str) -> Recording:
    return Recording(record=record, expr=expr, help=help, by=labels)


def _once(labels: Iterable[str], expr: str) -> str:
    """One series per `labels`, however many targets scrape the same exporter."""
    return f"max {by(('instance', *labels))} ({expr})"


_COPIES = _record(
    "node:gpu_exporter_copies:ratio",
    NODE,
    f"count {by(NODE)} (gpu_up) / count {by(NODE)} (count {by((*NODE, 'uuid'))} (gpu_up))",
    "How many targets scrape the node's exporter: sums over its GPUs are divided by it.",
)


def _device_level(level: str, labels: tuple[str, ...], join: str = "", base: str = "") -> tuple[Recording, ...]:
    """The rules of a level made of GPUs. `join` adds labels the device series lack; `base` is a level to add up."""

    def gathered(expr: str, *more: str) -> str:
        if join:
            return _sum((*labels, *more), _once(("uuid", *more), expr) + join)
        return f"{_sum((*labels, *more), expr)} / on (cluster, node, instance) group_left () {_COPIES.record}"

    def total(name: str, expr: str, *more: str) -> str:
        return _sum((*labels, *more), f"{base}:{name}") if base else gathered(expr, *more)

    thermal = f"max {by(_DEVICE)} (rate(gpu_throttled_seconds_total{{{_THERMAL}}}[5m])){join}"
    name, state = "gpu_time_seconds:rate5m", f"{level}_state:gpu_time_seconds:rate5m"
    seconds = "rate(gpu_time_seconds_total[5m])"
    # Most states of most GPUs are 0: what is left out need not be joined.
    ledger = (
        _sum((*labels, "state"), f"{base}_state:{name}")
        if base
        else gathered(f"{seconds} > 0" if join else seconds, "state")
    )
    count = total("gpu_up:count", "gpu_up >= bool 0")
    plain = (
        ("gpu_up:sum", "gpu_up", "GPUs that answer."),
        (
            "gpu_busy_seconds:rate5m",
            "rate(gpu_busy_seconds_total[5m])",
            "GPUs' worth of busy time: 3.5 is three and a half GPUs.",
        ),
        ("gpu_memory_used_bytes:sum", "gpu_memory_used_bytes", "Used GPU memory, bytes."),
        ("gpu_memory_total_bytes:sum", "gpu_memory_total_bytes", "GPU memory, bytes."),
        ("gpu_power_watts:sum", "gpu_power_watts", "Power drawn, watts."),
        ("gpu_energy_joules:rate5m", "rate(gpu_energy_joules_total[5m])", "Energy, joules per second."),
    )
    made = (
        ("gpu_up:count", count, "GPUs the exporters know, answering or not."),
        *((metric, total(metric, expr), text) for metric, expr, text in plain),
        (
            "gpu_thermal_throttle:ratio_rate5m",
            f"avg {by(labels)} ({thermal})",
            "Mean share of time the clocks were held down by heat, 0 to 1.",
        ),
    )
    states = _record(
        state,
        (*labels, "state"),
        ledger,
        "The device ledger: GPUs' worth of time in each state. Sums to the GPUs of the level.",
    )
    waste = _record(
        f"{level}:gpu_waste:rate5m",
        labels,
        _sum(labels, f'{state}{{state=~"{regex(LOST)}"}}') + (f" or 0 * {_sum(labels, state)}" if join else ""),
        "GPUs' worth of time that was held and lost (idle, waiting or throttled).",
    )
    observed = _sum(labels, f'{state}{{state!="unobserved"}}')
    used = _sum(labels, f'{state}{{state=~"{regex(BUSY)}"}}') + f" or 0 * {observed}"
    utilization = _record(
        f"{level}:gpu_utilization:ratio_rate5m",
        labels,
        f"({used}) / ({observed} > 0)",
        "Share of the observed time in which a kernel ran, 0 to 1; none where no GPU answers.",
    )
    plain_rules = (_record(f"{level}:{metric}", labels, expr, text) for metric, expr, text in made)
    return (*plain_rules, states, utilization, waste)


def _allocation(level: str, labels: tuple[str, ...], base: str = "") -> tuple[Recording, ...]:
    held = f"{level}:gpu_workload_gpus:sum"
    total = (
        _sum(labels, f"{base}:gpu_workload_gpus:sum")
        if base
        else f"{_sum(labels, 'gpu_workload_gpus')} / {_COPIES.record}"
    )
    return (
        _record(
            held,
            labels,
            f"{total} or 0 * {level}:gpu_up:count",
            "GPUs held by workloads (parts of a GPU count as parts); 0 where nobody holds any.",
        ),
        _record(
            f"{level}:gpu_free:sum",
            labels,
            f"clamp_min({level}:gpu_up:sum - {held}, 0)",
            "GPUs that answer and nobody holds.",
        ),
    )


def _reasons(level: str, labels: tuple[str, ...], base: str = "") -> Recording:
    name = "gpu_throttled_seconds:rate5m"
    raw = _sum((*labels, "reason"), "rate(gpu_throttled_seconds_total[5m])")
    total = f"{raw} / on (cluster, node, instance) group_left () {_COPIES.record}"
    return _record(
        f"{level}_reason:{name}",
        (*labels, "reason"),
        _sum((*labels, "reason"), f"{base}_reason:{name}") if base else total,
        "GPUs' worth of time the clocks were held down, by reason. A software power cap is normal at full load.",
    )


_INFO = _record(
    "gpu:gpu_info:first",
    ("instance", "uuid", "model"),
    f"max {by(('instance', 'uuid', 'model'))} (topk {by(('instance', 'uuid'))} (1, gpu_info))",
    "1 for each GPU, with its model: one series per GPU however often it is scraped, so that joins with it hold.",
)
_INFO_JOIN = f" * on (cluster, instance, uuid) group_left (model) {_INFO.record}"
_MODEL_SHARE = _record(
    "model:gpu_owner_share:sum",
    MODEL,
    _sum(MODEL, _once(("uuid", *OWNER_LABELS), "gpu_owner_share") + _INFO_JOIN),
    "GPUs of the model that workloads hold (whole GPUs; MIG instances are not in it).",
)

_WORKLOAD_MODELS = _record(
    "workload_model:gpu_owner_share:sum",
    (*WHOLE, "model"),
    _sum((*WHOLE, "model"), _once(("uuid", *OWNER_LABELS), "gpu_owner_share") + _INFO_JOIN),
    "GPUs held, by model: what prices multiply (whole GPUs; MIG instances are not in it).",
)
_HEAT = (
    _record(
        "node:gpu_temperature_celsius:max",
        NODE,
        f'max {by(NODE)} (gpu_temperature_celsius{{sensor="gpu"}})',
        "Temperature of the node's hottest GPU, degrees Celsius.",
    ),
    _record(
        "node:gpu_temperature_margin_celsius:min",
        NODE,
        f"min {by(NODE)} (gpu_temperature_margin_celsius)",
        "Degrees the GPU closest to its own limit has left before it slows itself down.",
    ),
)


def _of_parts(name: str, operation: str, expr: str, help: str) -> Recording:
    """Of the pods, and of the parts on other nodes, that are one workload."""
    return _record(f"workload:{name}", WHOLE, f"{operation} {by(WHOLE)} ({expr})", help)


_STARTED = "workload:gpu_workload_start_time_seconds:max"
_RESTARTED = "workload:gpu_workload_restarts:max"
_COUNTED = f"max_over_time({_RESTARTED}[1d]) - min_over_time({_RESTARTED}[1d])"
_WORKLOAD_PARTS = (
    _of_parts(
        "gpu_workload_used:rate5m",
        "sum",
        _once(("uuid", *OWNER_LABELS), "rate(gpu_workload_used_gpu_seconds_total[5m]) > 0"),
        "GPUs' worth of time that it ran kernels, whatever it holds.",
    ),
    _of_parts(
        "gpu_straggling:ratio_rate5m",
        "max",
        "rate(gpu_workload_straggler_seconds_total[5m])",
        "Share of time in which the others waited for the slowest of its GPUs.",
    ),
    _of_parts(
        "gpu_workload_parts:count",
        "count",
        f"count {by(('instance', *OWNER_LABELS))} (gpu_workload_gpus > 0)",
        "Its parts that hold GPUs: containers of pods, a job on each of its nodes.",
    ),
    _of_parts(
        "gpu_workload_start_time_seconds:max",
        "max",
        "gpu_workload_start_time_seconds",
        "Unix time the newest of its parts started.",
    ),
    _of_parts(
        "gpu_workload_restarts:max",
        "max",
        "gpu_workload_restarts",
        "How often the scheduler says that it was started again, the most of its parts.",
    ),
    _record(
        "workload:gpu_workload_starts:changes1d",
        WHOLE,
        f"({_COUNTED} > changes({_STARTED}[1d])) or changes({_STARTED}[1d]) or {_COUNTED}",
        "How often something of it was started again in the last 24 hours: new pods, restarted containers, requeues. "
        "What starts within a minute counts once.",
    ),
)
_WORKLOAD_SECONDS = "workload_state:gpu_workload_gpu_seconds:rate5m"


def _owner_level(level: str, labels: tuple[str, ...]) -> tuple[Recording, ...]:
    """The rules of a level that is made of workloads; all but `workload` itself add up that one."""
    base = level == "workload"
    own = "" if base else f'{level}!=""'
    state = f"{level}_state:gpu_workload_gpu_seconds:rate5m"
    seconds = f"{_WORKLOAD_SECONDS}{{{own}}}"
    if base:
        seconds = _once((*OWNER_LABELS, "state"), "rate(gpu_workload_gpu_seconds_total[5m]) > 0")
    raw = {
        "gpu_workload_gpus:sum": ("gpu_workload_gpus", "GPUs held."),
        "gpu_workload_memory_bytes:sum": ("gpu_workload_memory_bytes", "GPU memory its processes use, bytes."),
        "gpu_workload_energy_joules:rate5m": ("rate(gpu_workload_energy_joules_total[5m])", "Energy, joules/s."),
    }
    held = f"{level}:gpu_workload_held:rate5m"

    def part(matcher: str) -> str:
        return f"{_sum(labels, f'{state}{{{matcher}}}')} or 0 * {held}"

    rows = [
        (f"{level}:{name}", _sum(labels, _once(OWNER_LABELS, expr) if base else f"workload:{name}{{{own}}}"), text)
        for name, (expr, text) in raw.items()
    ]
    rows += [
        (held, _sum(labels, state), "GPUs' worth of time that was held."),
        (
            f"{level}:gpu_workload_observed:rate5m",
            part('state!="unobserved"'),
            "GPUs' worth of time that was held and of which it is known what the GPU did.",
        ),
        (
            f"{level}:gpu_workload_busy:rate5m",
            part(f'state=~"{regex(BUSY)}"'),
            "GPUs' worth of time a kernel ran.",
        ),
        (
            f"{level}:gpu_utilization:ratio_rate5m",
            f"{level}:gpu_workload_busy:rate5m / ({level}:gpu_workload_observed:rate5m > 0)",
            "Share of the held and observed GPU time in which a kernel ran, 0 to 1.",
        ),
        (
            f"{level}:gpu_waste:rate5m",
            part(f'state=~"{regex(LOST)}"'),
            "GPUs' worth of time that was held and lost (idle, waiting or throttled).",
        ),
    ]
    ledger = _record(
        state,
        (*labels, "state"),
        _sum((*labels, "state"), seconds),
        "The owners' ledger: GPUs' worth of held time in each state that took any. Sums to the GPUs held.",
    )
    return (ledger, *(_record(name, labels, expr, text) for name, expr, text in rows))


def _waste_hours(level: str, labels: tuple[str, ...]) -> Recording:
    return _record(
        f"{level}:gpu_waste_hours:sum1d",
        labels,
        f"sum_over_time({level}:gpu_waste:rate5m[1d]) / 60",
        "GPU hours held and lost in the last 24 hours.",
    )


_EXPORTERS = _record(
    "cluster:gpu_exporters:count",
    (),
    "count by (cluster) (gpu_exporter_build_info)",
    "Exporters that answer. What was there before tells which targets or clusters have gone.",
)
_MAINTENANCE = _record(
    "instance:gpu_node_maintenance:last",
    NODE,
    f"max {by(NODE)} (gpu_node_maintenance) or (instance:gpu_node_maintenance:last and on (cluster, instance) up == 0)",
    "1 while a node says that it is in maintenance, and on while it is switched off after that.",
)

GROUPS = (
    Group("gpu-device", INTERVAL, (_INFO, _EXPORTERS, _MAINTENANCE)),
    Group(
        "gpu-node",
        INTERVAL,
        (_COPIES, *_device_level("node", NODE), *_allocation("node", NODE), _reasons("node", NODE), *_HEAT),
    ),
    Group(
        "gpu-cluster",
        INTERVAL,
        (
            *_device_level("cluster", (), base="node"),
            *_allocation("cluster", (), "node"),
            _reasons("cluster", (), "node"),
        ),
    ),
    Group("gpu-model", INTERVAL, (*_device_level("model", MODEL, _INFO_JOIN), _MODEL_SHARE)),
    Group(
        "gpu-owner",
        INTERVAL,
        (
            *_owner_level("workload", WHOLE),
            *_WORKLOAD_PARTS,
            _WORKLOAD_MODELS,
            *_owner_level("namespace", ("namespace",)),
            *_owner_level("account", ("account",)),
            *_owner_level("user", ("user",)),
        ),
    ),
    Group("gpu-progress", INTERVAL, PROGRESS),
    Group("gpu-serving", INTERVAL, SERVING),
    Group(
        "gpu-waste",
        "5m",
        tuple(
            _waste_hours(level, labels)
            for level, labels in (
                ("cluster", ()),
                ("node", NODE),
                ("model", MODEL),
                ("namespace", ("namespace",)),
                ("account", ("account",)),
                ("user", ("user",)),
            )
        ),
    ),
)
