"""Names of jobs beside their ids, in graphs and cells."""

from __future__ import annotations

import re
from typing import Any

from dashboards.parts.query import CLUSTER, RANGE

JOB_NAME = "job_name"
JOB_NAMES = "workload_job_name:gpu_workload_start_time_seconds:max"
_WORKLOAD = "{{workload}}"
_CHOSEN = re.compile(r'workload=~?"\$\w+"|instance="\$instance"')
_JOB = "cluster, workload"


def with_job_names(expr: str, every: str = "", moment: str = "{}") -> str:
    """Return `expr`, of workloads, with the name of each job as a label; pods have an empty one.

    `every` has series of all that `expr` is of, also of what is no workload: names are then the recorded ones. `moment`
    is what to read of series.
    """
    chosen = _CHOSEN.search(expr)
    scope = f"{CLUSTER}, {chosen[0]}" if chosen else CLUSTER
    names = (
        f"last_over_time({JOB_NAMES}{{{CLUSTER}}}[{RANGE}])"
        if every
        else moment.format(f'gpu_workload_info{{{scope}, {JOB_NAME}!=""}}')
    )
    every = every or moment.format(f"gpu_workload_info{{{scope}}}")
    both = f"2 * max by ({_JOB}, {JOB_NAME}) ({names}) ^ 0 or max by ({_JOB}) ({every})"
    return f"({expr}) + on ({_JOB}) group_left ({JOB_NAME}) 0 * topk by ({_JOB}) (1, {both})"


def name_jobs(panel: dict[str, Any]) -> None:
    """Add the job's name to each legend of a panel's JSON that names a workload.

    The name is that at the end of the time range: a query reads it once, not at every step.
    """
    targets: list[dict[str, Any]] = panel.get("targets") or []
    for target in targets:
        legend: str = target.get("legendFormat") or ""
        if _WORKLOAD in legend and 'kind!="slurm"' not in target["expr"]:  # pods have no other name
            moment = "{}" if target.get("instant") else "last_over_time({}[$__range] @ end())"
            target["expr"] = with_job_names(target["expr"], moment=moment)
            target["legendFormat"] = legend.replace(_WORKLOAD, f"{_WORKLOAD} {{{{{JOB_NAME}}}}}")
