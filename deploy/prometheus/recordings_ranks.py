"""Recording rules that compare the ranks of a workload over nodes, and name the one that the others wait for.

As in the exporter, which compares the ranks of its node: the units of a GPU rest in a spin, so what its activity per
busy second lacks of the level of work is spin, and spin beyond that of the least spinning rank is a wait for it.
"""

from __future__ import annotations

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import each_value, once, record, record_each

_RANK = ("node", "instance", "gpu", "uuid", "workload")
_RANKS = f"({', '.join(('cluster', *_RANK))})"
_JOB = "(cluster, workload)"
_UNIT = "(cluster, workload, unit)"
_GPU = ("gpu", "uuid")
_LEAST_LEVEL, _SHORT_WAIT, _NAMED, _LIKE_WORK, _LEAST_FALL = 0.05, 0.15, 0.25, 0.1, 0.3
"""Least activity per busy second that shows a spin; least wait; spin of the rank that is named, over the others'; what
the work of ranks may differ by; how far SM activity falls in a spin, over the spin."""

_OWNED = f'max by {_RANKS} (gpu_allocation_ratio{{kind!~"process|unit"}}) == 1'
"""Whole GPUs of one workload. A process has a name on its own node only."""
_ON_NODES = f"count by {_JOB} (count by (cluster, instance, workload) ({_OWNED})) > 1"
RANK_BUSY = record(
    "rank:gpu_busy:rate5m",
    _RANK,
    f"{once(_GPU, 'rate(gpu_busy_seconds_total[5m])')} * on (cluster, instance, uuid) group_left (node, workload)"
    # One of each GPU, also where two targets or two schedulers tell of it otherwise: all jobs are in this rule.
    f" topk by (cluster, instance, uuid) (1, {_OWNED} and on {_JOB} ({_ON_NODES}))",
    "Fraction of its time in which each GPU of a workload of several nodes ran a kernel.",
)


def _rate(metric: str) -> str:
    return once(_GPU, f"rate({metric}[5m])")


_UNIT_ACTIVE = "rank_unit:gpu_active:rate5m"
_UNITS = {unit: _rate(f"gpu_{unit}_active_seconds_total") for unit in ("tensor", "dram", "sm")} | {
    "vector": " + ".join(_rate(f"gpu_{pipe}_active_seconds_total") for pipe in ("fp64", "fp32", "fp16")),
    "memory": f"{_rate('gpu_memory_busy_seconds_total')}"
    f' unless on (cluster, instance, uuid) {_UNIT_ACTIVE}{{unit="dram"}}',
}
RANK_UNITS = record_each(
    _UNIT_ACTIVE,
    (*_RANK, "unit"),
    each_value(
        "unit",
        {
            unit: f"({rate})\n* on (cluster, instance, uuid) group_left (node, workload) ({RANK_BUSY.record} >= bool 0)"
            for unit, rate in _UNITS.items()
        },
    ),
    "Fraction of its time in which each unit of such a GPU was active: tensor, dram, vector, sm; before Hopper memory.",
)
UNIT_LEVELS = record(
    "workload_unit:gpu_active:max",
    ("workload", "unit"),
    f"max by {_UNIT} ({RANK_UNITS.record} / on {_RANKS} group_left () ({RANK_BUSY.record} > 0.05)) > {_LEAST_LEVEL}",
    "Activity of a unit per busy second at work: the highest of any rank.",
)
_SM, _NOT_SM = 'unit="sm"', 'unit!="sm"'


def _parts(units: str) -> str:
    return f"{RANK_UNITS.record}{{{units}}} / on {_UNIT} group_left () {UNIT_LEVELS.record}"


RANK_SPINS = record(
    "rank:gpu_spins:rate5m",
    _RANK,
    f"{RANK_BUSY.record} - on {_RANKS} avg by {_RANKS} ({_parts(_NOT_SM)})",
    "Fraction of its time in which each rank spun in a kernel, by what its units lack of the level of work.",
)
RANK_WAITS = record(
    "rank:gpu_waits:rate5m",
    _RANK,
    f"{RANK_SPINS.record} - on {_JOB} group_left () min by {_JOB} ({RANK_SPINS.record})",
    "Fraction of its time in which each rank spun longer than the rank that spins least.",
)
JOB_WAITS = record(
    "workload:gpu_waits:rate5m",
    ("workload",),
    f"sum by {_JOB} ({RANK_WAITS.record}) / (count by {_JOB} ({RANK_WAITS.record}) - 1)",
    "Fraction of the time that the other ranks wait for the one that spins least, on the average.",
)
_TYPICAL = JOB_WAITS.record
RANK_WORKING = record(
    "rank:gpu_working:rate5m",
    _RANK,
    f"{RANK_BUSY.record} - on {_RANKS} {RANK_SPINS.record}",
    "Fraction of its time in which each rank ran a kernel and did not spin.",
)
RANK_SM_SPINS = record(
    "rank:gpu_sm_spins:rate5m",
    _RANK,
    f"{RANK_BUSY.record} - on {_RANKS} max by {_RANKS} ({_parts(_SM)})",
    "Fraction of its time that each rank spun by its SM activity alone.",
)
_WORK, _SM_SPINS, _WAITS = RANK_WORKING.record, RANK_SM_SPINS.record, RANK_WAITS.record
COMPARABLE = record(
    "workload:gpu_ranks_comparable:last",
    ("workload",),
    f"""\
{_TYPICAL} > {_SHORT_WAIT}
and on {_JOB} stddev by {_JOB} ({_WORK}) <= {_LIKE_WORK} * avg by {_JOB} ({_WORK})
unless on {_JOB} avg by {_JOB} ({_SM_SPINS}) - min by {_JOB} ({_SM_SPINS}) < {_LEAST_FALL} * {_TYPICAL}""",
    "Fraction of the time that the other ranks wait, of workloads whose ranks do like work, wait for more than 15 % "
    "of the time, and whose SM activity falls too.",
)
_MOST_WAIT = f"""\
2 * count by {_JOB} ({_WAITS} > on {_JOB} group_left () (0.5 * {_TYPICAL})) >= count by {_JOB} ({_WAITS})"""
RANK_STRAGGLES = record(
    "rank:gpu_straggling:ratio_rate5m",
    _RANK,
    f"""\
({COMPARABLE.record} and on {_JOB} {_MOST_WAIT})
* on {_JOB} group_right () (({_WAITS} < on {_JOB} group_left () ({_NAMED} * {_TYPICAL})) ^ 0)""",
    "Fraction of the time that most ranks wait for this one in a collective. Only if ranks on several nodes do like "
    "work, wait for more than 15 % of the time, and whose SM activity falls too.",
)

RANKS: tuple[Recording, ...] = (
    RANK_BUSY,
    RANK_UNITS,
    UNIT_LEVELS,
    RANK_SPINS,
    RANK_WAITS,
    JOB_WAITS,
    RANK_WORKING,
    RANK_SM_SPINS,
    COMPARABLE,
    RANK_STRAGGLES,
)
