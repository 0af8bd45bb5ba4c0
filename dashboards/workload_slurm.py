"""Workload (Slurm): jobs with allocated GPUs, by account and user."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.parts import link, uid, variable, workload
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, SLURM, SLURM_SHOWN
from dashboards.parts.table import Key
from dashboards.parts.workload_kind import Kind

_JOBS = f'gpu_workload_allocated_gpus{{{CLUSTER}, kind="slurm"'


def workload_slurm() -> build.Dashboard:
    made = dashboard(
        "Workload (Slurm)",
        uid.SLURM,
        "Slurm jobs: how they use their allocated GPUs, why not better, what to do.",
        (
            variable.many("account", "Account", f"label_values({_JOBS}}}, account)"),
            variable.many("user", "User", f'label_values({_JOBS}, account=~"$account"}}, user)'),
            variable.many("workload", "Job", f'label_values({_JOBS}, account=~"$account", user=~"$user"}}, workload)'),
            variable.shown(SLURM),
            variable.allocated_to(SLURM_SHOWN),
        ),
        scope=f'{SLURM}, workload!=""',
    )
    kind = Kind(
        noun="job",
        scope=SLURM,
        shown=SLURM_SHOWN,
        owner_keys=(
            Key("user", "User", (link.to_user(link.cell("User")),), width=90),
            Key("account", "Account", (link.to_account(link.cell("Account")),), width=100),
            Key("partition", "Partition", width=90),
        ),
        onward=link.to_job(link.cell("Job"), link.cell("Cluster")),
    )
    workload.body(made, kind)
    return made
