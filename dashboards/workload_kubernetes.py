"""Workload (Kubernetes): pods with allocated GPUs, and containers, units and processes outside Slurm."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.parts import link, uid, variable, workload
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, POD, POD_SHOWN
from dashboards.parts.table import Key
from dashboards.parts.workload_kind import Kind

_ELSEWHERE = f'gpu_workload_allocated_gpus{{{CLUSTER}, kind!="slurm"'


def workload_kubernetes() -> build.Dashboard:
    made = dashboard(
        "Workload (Kubernetes)",
        uid.KUBERNETES,
        "Pods (and containers, units and processes outside Slurm): how they use their allocated GPUs, why not better, what to do.",
        (
            variable.many("namespace", "Namespace", f"label_values({_ELSEWHERE}}}, workload_namespace)"),
            variable.many(
                "workload", "Workload", f'label_values({_ELSEWHERE}, workload_namespace=~"$namespace"}}, workload)'
            ),
            variable.shown(POD),
            variable.allocated_to(POD_SHOWN),
        ),
        scope=f'{POD}, workload!=""',
    )
    kind = Kind(
        noun="workload",
        scope=POD,
        shown=POD_SHOWN,
        owner_keys=(
            Key("kind", "Kind", width=80),
            Key("workload_namespace", "Namespace", (link.to_namespace(link.cell("Namespace")),), width=120),
        ),
        onward=link.to_pod(link.cell("Workload"), link.cell("Cluster")),
    )
    workload.body(made, kind)
    return made
