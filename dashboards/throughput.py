"""Throughput: what training and serving programs get done, beside what their GPUs do."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, link, mfu, panel, reported, serving, solution, states, style, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, over_time, some
from dashboards.parts.table import Key, Table, Text, Value, gauge, lost_state

SCOPE = 'cluster=~"$cluster", workload=~"$workload"'
SHOWN = 'cluster=~"$cluster", workload=~"$shown"'
_REPORTED = "workload_unit:gpu_workload_throughput:rate5m"
BY_WORKLOAD = "{{workload}}"


def throughput() -> build.Dashboard:
    made = dashboard(
        "Throughput",
        uid.THROUGHPUT,
        "Samples, tokens, images, requests and steps per second, progress and time to the end, beside the ledger of the GPUs.",
        (
            variable.many("workload", "Workload", f"label_values({_REPORTED}{{{CLUSTER}}}, workload)"),
            variable.shown(SCOPE),
            solution.changed(),
        ),
        scope=SCOPE,
    )
    made.with_row(build.Row("Training"))
    made.with_panel(_programs())
    _training(made)
    made.with_row(build.Row("What their GPUs did meanwhile"))
    _ledger(made)
    made.with_row(build.Row("Time to solution"))
    made.with_panel(solution.to_the_end(SCOPE))
    made.with_panel(solution.runs(SCOPE))
    made.with_panel(solution.before_and_after(SCOPE))
    engines = build.Row(serving.TITLE).collapsed(collapsed=True)
    for each in serving.panels():
        engines.with_panel(each)
    made.with_row(engines)
    return made


def _programs() -> table.Panel:
    name, cluster = link.cell("Workload"), link.cell("Cluster")
    rank = f"workload:gpu_workload_slowest_rank_step_seconds:max{{{SCOPE}}}"
    by = "cluster, workload"
    only = f" and on ({by}) ({_REPORTED}{{{SCOPE}}} or gpu_workload_progress_ratio{{{SCOPE}}})"
    return Table(
        title="Programs that report their progress",
        description="One row per workload, with what it gets done in each unit that it reports. Slowest rank: the one whose steps take longest "
        f"without waiting for others. {mfu.MEANING} Click one to see why it is not faster.",
        keys=(
            Key("cluster", "Cluster", width=75),
            Key("workload", "Workload", (link.to_pod(name, cluster), link.to_job(name, cluster))),
            Key("user", "User", width=80),
        ),
        columns=(
            gauge("Progress", f"gpu_workload_progress_ratio{{{SCOPE}}}", style.PLAIN, width=95),
            *reported.columns(SCOPE),
            Text("Slowest rank", rank, "rank", width=105),
            Value(
                "GPUs", f"gpu_workload_allocated_gpus{{{SCOPE}}}{only}", style.COUNT, decimals=1, width=60, reduce="sum"
            ),
            gauge("Utilization", f"workload:gpu_utilization:ratio_rate5m{{{SCOPE}}}{only}", style.PLAIN, width=95),
            *mfu.columns(SCOPE, f"{by}, user", only, mfu.NOW),
            lost_state(
                "Wasted on",
                f'(workload_state:gpu_workload_gpu_seconds:rate5m{{{SCOPE}, state=~"{states.LOST_REGEX}"}} > 0.2){only}',
            ),
        ),
        sort="Progress",
        size=(24, 8),
        empty=reported.SILENT,
    ).build()


def _training(made: build.Dashboard) -> None:
    graphs = (
        ("Work per second", "As the programs report, a line for each unit that one reports. Of many programs, the 12 that waste most; so in the graphs below.", reported.work(SHOWN), units.OpsPerSecond, reported.LEGEND),
        ("Work per second and GPU", "Per allocated GPU: what a scaling test compares. In steps where a program reports nothing else.", reported.per_gpu(SHOWN), units.OpsPerSecond, reported.LEGEND),
        ("Energy per unit of work", "Joules of its GPUs per sample, token, image, request, or step where a program reports nothing else.", reported.joules(SHOWN), units.Joule, reported.LEGEND),
    )  # fmt: skip
    work, *others = (
        reported.lines(title, text, expr, unit, legend=legend) for title, text, expr, unit, legend in graphs
    )
    for each in (work, reported.steps_lines(SHOWN), *others):
        made.with_panel(each)


def _ledger(made: build.Dashboard) -> None:
    reports = f"and on (cluster, workload) {_REPORTED}{{{SHOWN}}}"
    recorded = f"workload_state:gpu_workload_gpu_seconds:rate5m{{{SHOWN}"
    made.with_panel(
        panel.ledger(
            "Allocated GPUs by state",
            "The GPUs of the programs in the graphs above, by state. When steps per second fall, the colour that grows is the cause.",
            over_time(some(f"sum by (state) ({recorded}}} {reports})")),
            size=(12, 10),
            empty=reported.SILENT,
        )
    )
    made.with_panel(
        block.told(
            "What limited each one",
            "One row per workload; of many, the 12 that wasted most.",
            lambda more: f"{recorded}{more}}}",
            "cluster, workload",
            BY_WORKLOAD,
            only=f" {reports}",
            whole=f"sum by (cluster, workload) (workload:gpu_workload_allocated:rate5m{{{SHOWN}}})",
            size=(12, 10),
            empty=reported.SILENT,
        )
    )
