"""All dashboards, by the name of the file each is written to."""

from __future__ import annotations

from collections.abc import Callable

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.capacity import capacity
from dashboards.exporter import exporter
from dashboards.fleet import fleet
from dashboards.gpu import gpu
from dashboards.health import health
from dashboards.job import job
from dashboards.node import node
from dashboards.showback import showback
from dashboards.throughput import throughput
from dashboards.waste import waste
from dashboards.workload_kubernetes import workload_kubernetes
from dashboards.workload_slurm import workload_slurm

DASHBOARDS: dict[str, Callable[[], build.Dashboard]] = {
    "fleet": fleet,
    "node": node,
    "gpu": gpu,
    "workload-kubernetes": workload_kubernetes,
    "workload-slurm": workload_slurm,
    "job": job,
    "waste": waste,
    "capacity": capacity,
    "showback": showback,
    "health": health,
    "throughput": throughput,
    "exporter": exporter,
}
