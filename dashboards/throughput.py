"""Throughput: what training and serving programs get done, beside what their GPUs do."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, link, look, mfu, panel, price, serving, solution, states, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, over_time, rate, some
from dashboards.parts.table import Key, Table, Value, gauge, lost_state

SCOPE = 'cluster=~"$cluster", workload=~"$workload"'
SHOWN = 'cluster=~"$cluster", workload=~"$shown"'
SILENT = "No program of the selection reports its progress"
BY_WORKLOAD = "{{workload}}"


def throughput() -> build.Dashboard:
    made = dashboard(
        "Throughput",
        uid.THROUGHPUT,
        "Steps, samples and tokens per second, progress and time to the end, beside the ledger of the GPUs.",
        (
            variable.many("workload", "Workload", f"label_values(gpu_workload_steps_total{{{CLUSTER}}}, workload)"),
            variable.shown(SCOPE),
            solution.changed(),
            *price.variables(),
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
    name = link.cell("Workload")
    reports = f"(gpu_workload_steps_total{{{SCOPE}}} or gpu_workload_samples_total{{{SCOPE}}} or gpu_workload_progress_ratio{{{SCOPE}}})"
    progress = f"gpu_workload_progress_ratio{{{SCOPE}}}"
    by = "cluster, workload"
    only = f" and on ({by}) {reports}"
    return Table(
        title="Programs that report their progress",
        description=f"One row per workload. {mfu.MEANING} Click one to see why it is not faster.",
        keys=(Key("workload", "Workload", (link.to_pod(name), link.to_job(name))), Key("user", "User", width=100)),
        columns=(
            gauge("Progress", progress, look.PLAIN, width=150),
            Value("Steps/s", rate(f"gpu_workload_steps_total{{{SCOPE}}}"), units.OpsPerSecond, decimals=2, width=110),
            Value(
                "Samples/s",
                rate(f"gpu_workload_samples_total{{{SCOPE}}}"),
                units.OpsPerSecond,
                decimals=1,
                width=110,
                reduce="sum",
            ),
            Value("GPUs", f"gpu_workload_gpus{{{SCOPE}}}{only}", look.COUNT, decimals=1, width=70, reduce="sum"),
            gauge("Utilization", f"workload:gpu_utilization:ratio_rate5m{{{SCOPE}}}{only}", look.PLAIN, width=120),
            mfu.column(SCOPE, f"{by}, user", only),
            mfu.bound_column(SCOPE, only),
            lost_state(
                "Wasted on",
                f'(workload_state:gpu_workload_gpu_seconds:rate5m{{{SCOPE}, state=~"{states.LOST_REGEX}"}} > 0.2){only}',
            ),
        ),
        sort="Progress",
        size=(24, 8),
        empty=SILENT,
    ).build()


def _training(made: build.Dashboard) -> None:
    steps, samples = rate(f"gpu_workload_steps_total{{{SHOWN}}}"), rate(f"gpu_workload_samples_total{{{SHOWN}}}")
    gpus = f"sum by (cluster, workload) (gpu_workload_gpus{{{SHOWN}}})"
    joules = rate(f"gpu_workload_energy_joules_total{{{SHOWN}}}")
    made.with_panel(
        panel.lines(
            "Steps per second",
            "As the programs report. Of many, the 12 that waste most; so in the graphs below.",
            over_time(f"max by (cluster, workload) ({steps})", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 8),
            empty=SILENT,
        )
    )
    made.with_panel(
        panel.lines(
            "Samples per second and GPU",
            "Samples or tokens, per GPU held: what a scaling test compares.",
            over_time(f"(sum by (cluster, workload) ({samples}) / ({gpus} > 0))", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 8),
            empty=SILENT,
        )
    )
    made.with_panel(
        panel.lines(
            "Energy per sample",
            "Joules of its GPUs per sample or token.",
            over_time(
                f"(sum by (cluster, workload) ({joules}) / (sum by (cluster, workload) ({samples}) > 0))",
                BY_WORKLOAD,
            ),
            units.Joule,
            size=(8, 8),
            empty=SILENT,
        )
    )


def _ledger(made: build.Dashboard) -> None:
    reports = (
        f"and on (cluster, workload) (gpu_workload_steps_total{{{SHOWN}}} or gpu_workload_samples_total{{{SHOWN}}})"
    )
    recorded = f"workload_state:gpu_workload_gpu_seconds:rate5m{{{SHOWN}"
    made.with_panel(
        panel.ledger(
            "Held GPUs by state",
            "The GPUs of the programs in the graphs above, by state. When steps per second fall, the colour that grows is the cause.",
            over_time(some(f"sum by (state) ({recorded}}} {reports})")),
            size=(12, 10),
            empty=SILENT,
        )
    )
    made.with_panel(
        block.told(
            "What held each one back",
            "One row per workload; of many, the 12 that wasted most.",
            lambda more: f"({recorded}{more}}} {reports})",
            "cluster, workload",
            BY_WORKLOAD,
            size=(12, 10),
            empty=SILENT,
        )
    )
