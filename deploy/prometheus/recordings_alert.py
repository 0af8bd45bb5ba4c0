"""Recording rules that alerts are made of: so that an alert is a few lines, and its joins stand in one place."""

from __future__ import annotations

from deploy.prometheus.recordings_common import WHOLE, by, each_value, record, record_each
from deploy.prometheus.recordings_device import WORKLOAD_MODELS, WORKLOAD_PRICES
from deploy.prometheus.recordings_owner import PART_STATES
from deploy.prometheus.states import BUSY, OWNERS, regex

WORKLOAD = "(cluster, workload)"
LATELY = "2m"
"""Pods are replaced: a workload is there if any of its pods was lately."""
_IDENTITY = ("workload", "kind", "workload_namespace", "slurm_job", "user")
GPU = "(cluster, instance, uuid)"


def _named(labels: tuple[str, ...], matchers: str = "") -> str:
    """Return the workloads whose parts agree on these labels."""
    allocated = f"sum {by(labels)} (max_over_time(gpu_workload_allocated_gpus{matchers}[{LATELY}])) > 0"
    return f"({allocated} unless on {WORKLOAD} count by {WORKLOAD} ({allocated}) > 1)"


_OWNER = "workload:gpu_owner:first"
_KNOWN = '{user!=""}'
AGREED = record(
    "workload:gpu_identity:last",
    _IDENTITY,
    f"{_named(_IDENTITY, _KNOWN)}\nor\n{_named(_IDENTITY)}",
    "Allocated GPUs of each workload whose parts agree on its scheduler, namespace, job and user.",
)
_THERE = f"sum by {WORKLOAD} (max_over_time(gpu_workload_allocated_gpus[{LATELY}])) > 0"
OWNER = record(
    _OWNER,
    WHOLE,
    # Two exporters, or two versions of one, may name other labels of one workload differently. Programs outside a
    # scheduler share their name with those of other people: where the users differ, none is named. The identity may be
    # there twice for a moment, where a ruler reads what it wrote later.
    f"""\
({_OWNER} and on (cluster, {", ".join(_IDENTITY)}) {AGREED.record})
or on {WORKLOAD} ({_named(WHOLE)} > bool 0)
or on {WORKLOAD} (topk by {WORKLOAD} (1, {AGREED.record} and on {WORKLOAD} {_THERE}) > bool 0)
or on {WORKLOAD} ({_THERE}) > bool 0""",
    "1 for each workload with allocated GPUs, with the labels that all its parts have. An account or partition that "
    "changes meanwhile changes no label here, so that no alert begins anew.",
)

IDLE = 'state=~"allocated_idle|allocated_unused"'
_HOLDERS = f"max by (cluster, instance, uuid, workload) ({{}} > 0) * on {GPU} group_left () max by {GPU} ({{}})"
GPU_IDLE = record(
    "workload_gpu:gpu_idle:ratio_rate5m",
    ("instance", "uuid", "workload"),
    _HOLDERS.format(
        "gpu_allocation_ratio > bool 0",
        f"sum by {GPU} (gpu_state:gpu_state_seconds:rate5m{{{IDLE}}}) or 0 * gpu_allocation_ratio",
    )
    + "\nor\n"
    + _HOLDERS.format(
        "gpu_mig_allocation_ratio > bool 0", f"sum without (state) (rate(gpu_mig_state_seconds_total{{{IDLE}}}[5m]))"
    ),
    "Fraction of time that an allocated GPU or MIG instance had no process, or none that ran a kernel.",
)
_STATES = "workload_state:gpu_workload_gpu_seconds:rate5m"
_ALLOCATED = f"sum by {WORKLOAD} (workload:gpu_workload_allocated:rate5m)"
_CAUSES = {"allocated": IDLE, "requests": 'state="wait_requests"', "user": 'state="wait_user"'}


def _idle(states: str) -> str:
    """Return the GPUs' worth of time in these states; 0 of a workload that was idle in none."""
    none = f" or 0 * {_ALLOCATED}" if states == IDLE else ""
    return f"(sum by {WORKLOAD} ({_STATES}{{{states}}}){none})"


WORKLOAD_IDLE = record_each(
    "workload_cause:gpu_idle:ratio_rate5m",
    ("workload", "cause"),
    each_value("cause", {cause: f"{_idle(states)} / {_ALLOCATED}" for cause, states in _CAUSES.items()}),
    "Fraction of the allocated GPU time of a workload that nothing ran, by cause: no kernel (allocated), no "
    "request, or "
    "a user who is away.",
)

_APART = 'kind=~"process|unit"'
_SCHEDULED = _APART.replace("=~", "!~")
_RUN_LABELS = ("instance", "workload", "user")
RUN_STATES = record(
    "run_state:gpu_workload_gpu_seconds:rate5m",
    (*_RUN_LABELS, "state"),
    # A program outside a scheduler shares its name with others: each node and user is a run of its own.
    f"sum by (cluster, workload, state) ({PART_STATES.record}{{{_SCHEDULED}}})\nor\n"
    f"sum by (cluster, instance, workload, user, state) ({PART_STATES.record}{{{_APART}}})",
    "GPUs' worth of allocated time of a job, or of a program on one node, by state.",
)


def _of_runs(states: str) -> str:
    """Return the fraction of allocated GPU time in these states, 0 where there was none."""
    whole = f"sum without (state) ({RUN_STATES.record})"
    return f"(sum without (state) ({RUN_STATES.record}{{{states}}}) or 0 * {whole}) / {whole}"


SPINS = record(
    "run:gpu_collective_wait:ratio_rate5m",
    _RUN_LABELS,
    _of_runs('state="wait_collective"'),
    "Fraction of the GPU time of a job, or of a program on one node, that its GPUs spun in a collective.",
)
COMPUTES = record(
    "run:gpu_busy:ratio_rate5m",
    _RUN_LABELS,
    _of_runs(f'state=~"{regex(BUSY)}"'),
    "Fraction of the GPU time of a job, or of a program on one node, that a kernel ran and did more than wait.",
)
_ON_NODE = "sum by (cluster, instance, workload)"
RANK_WAIT = record(
    "workload_instance:gpu_rank_wait:ratio_rate5m",
    ("instance", "workload"),
    f'({_ON_NODE} ({PART_STATES.record}{{state=~"wait_collective|wait_peer",{_SCHEDULED}}})'
    f" or 0 * {_ON_NODE} ({PART_STATES.record}{{{_SCHEDULED}}})) / {_ON_NODE} ({PART_STATES.record}{{{_SCHEDULED}}})",
    "Fraction of its GPU time that a job waits for other ranks, on each of its nodes.",
)

_EVALUATES = f"""\
(sum by {WORKLOAD} (increase(gpu_workload_phase_seconds_total{{phase="evaluation"}}[10m])) > 0
  and on {WORKLOAD} sum by {WORKLOAD} ({_STATES}{{state=~"{regex(BUSY)}"}}) > 0)"""
STEPS_EXPECTED = record(
    "workload:gpu_steps_expected:last",
    ("workload",),
    # Only what has made steps before: compiling and loading come before the first one. A program that reports to
    # evaluate and computes is well.
    f"""\
(max by {WORKLOAD} (max_over_time(gpu_workload_steps_total[1h])) > 0) > bool 0
unless on {WORKLOAD} max by {WORKLOAD} (max_over_time(gpu_workload_progress_ratio[{LATELY}])) >= 1
unless on {WORKLOAD} last_over_time(gpu_workload_info{{class="interactive"}}[10m])
unless on {WORKLOAD} {_EVALUATES}""",
    "1 for each workload that made steps within the last hour, is not done, evaluates nothing and is no session.",
)

_SENSOR = "(cluster, node, instance, gpu, uuid)"
MARGIN = record(
    "gpu:gpu_temperature_margin_celsius:min",
    ("node", "instance", "gpu", "uuid"),
    f"""\
min by {_SENSOR} (gpu_temperature_margin_celsius)
or
min by {_SENSOR} (gpu_temperature_threshold_celsius{{threshold="slowdown"}})
  - min by {_SENSOR} (gpu_temperature_celsius{{sensor="gpu"}})""",
    "Degrees Celsius until the GPU slows itself down, by its own margin or by its threshold.",
)

IDLE_TIME = record(
    "workload:gpu_idle:rate5m",
    WHOLE,
    f'sum {by(WHOLE)} ({_STATES}{{state=~"allocated_idle|allocated_unused|wait_requests|wait_user"}})',
    "GPUs' worth of allocated time in which nothing ran: no process, no kernel, no request or no user.",
)
OWNER_WASTE_TIME = record(
    "workload:gpu_owner_waste:rate5m",
    WHOLE,
    f'sum {by(WHOLE)} ({_STATES}{{state=~"{regex(OWNERS)}"}})',
    "GPUs' worth of allocated time that its owner wasted or possibly wasted.",
)
_MODELS = WORKLOAD_MODELS.record
OWNER_WASTE_PRICE = record(
    "workload:gpu_owner_waste_price:rate5m",
    (*WHOLE, "currency"),
    f"""\
{WORKLOAD_PRICES.record}
* on (cluster, {", ".join(WHOLE)}) group_left () ({OWNER_WASTE_TIME.record} / sum {by(WHOLE)} ({_MODELS}))""",
    "Price of an hour of that time, where the site has prices. MIG instances are not in it.",
)
NOW = (AGREED, OWNER, STEPS_EXPECTED)
"""Rules that decide at the moment of an error, or who is named."""
OWNER_TIME = (IDLE_TIME, OWNER_WASTE_TIME, OWNER_WASTE_PRICE)
RATED = (GPU_IDLE, WORKLOAD_IDLE, RUN_STATES, SPINS, COMPUTES, RANK_WAIT, MARGIN)
