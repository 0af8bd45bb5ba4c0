"""Throughput: what training and serving programs get done, beside what their GPUs do."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table, timeseries
from grafana_foundation_sdk.models import units

from dashboards.parts import block, link, look, panel, states, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, over_time, rate, some
from dashboards.parts.table import Key, Table, Value, gauge, lost_state

SCOPE = 'cluster=~"$cluster", workload=~"$workload"'
SHOWN = 'cluster=~"$cluster", workload=~"$shown"'
SILENT = "No program of the selection reports its progress"
NO_VLLM = "No vLLM server is scraped by this Prometheus"
NO_TRITON = "No Triton server is scraped by this Prometheus"
BY_WORKLOAD = "{{workload}}"


def throughput() -> build.Dashboard:
    made = dashboard(
        "Throughput",
        uid.THROUGHPUT,
        "Steps, samples and tokens per second, progress and time to the end, beside the ledger of the GPUs.",
        (
            variable.many("workload", "Workload", f"label_values(gpu_workload_steps_total{{{CLUSTER}}}, workload)"),
            variable.shown(SCOPE),
        ),
        scope=SCOPE,
    )
    made.with_row(build.Row("Training"))
    made.with_panel(_programs())
    _training(made)
    made.with_row(build.Row("What their GPUs did meanwhile"))
    _ledger(made)
    serving = build.Row("Serving engines: vLLM and Triton, where this Prometheus scrapes them").collapsed(
        collapsed=True
    )
    for each in (*_vllm(), *_triton()):
        serving.with_panel(each)
    made.with_row(serving)
    return made


def _programs() -> table.Panel:
    name = link.cell("Workload")
    reports = f"(gpu_workload_steps_total{{{SCOPE}}} or gpu_workload_samples_total{{{SCOPE}}} or gpu_workload_progress_ratio{{{SCOPE}}})"
    progress = f"gpu_workload_progress_ratio{{{SCOPE}}}"
    elapsed = f"(time() - gpu_workload_start_time_seconds{{{SCOPE}}})"
    by = "cluster, workload"
    only = f" and on ({by}) {reports}"
    return Table(
        title="Programs that report their progress",
        description="One row per workload. 'Time to the end' goes on at the mean pace since its start. Click one to see why it is not faster.",
        keys=(Key("workload", "Workload", (link.to_pod(name), link.to_job(name))), Key("user", "User", width=100)),
        columns=(
            gauge("Progress", progress, look.PLAIN, width=150),
            Value(
                "Time to the end",
                f"max by ({by}, user) ({elapsed}) * on ({by}, user) ((1 - max by ({by}, user) ({progress})) / (max by ({by}, user) ({progress}) > 0))",
                units.Seconds,
                decimals=1,
                width=120,
            ),
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
            gauge("Utilization", f"workload:gpu_utilization:ratio_rate5m{{{SCOPE}}}{only}", look.PLAIN, width=140),
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


def _vllm() -> Iterator[timeseries.Panel]:
    model = "{{model_name}}"
    yield panel.lines(
        "Tokens per second",
        "Generated and prompt tokens, by model, as vLLM counts them.",
        [
            over_time(f"sum by (model_name) ({rate('vllm:generation_tokens_total')})", f"{model} generated"),
            over_time(f"sum by (model_name) ({rate('vllm:prompt_tokens_total')})", f"{model} prompt"),
        ],
        units.OpsPerSecond,
        size=(8, 8),
        empty=NO_VLLM,
    )
    yield panel.lines(
        "Requests",
        "Running and waiting. Waiting ones with idle GPUs: look at the ledger.",
        [
            over_time("sum by (model_name) (vllm:num_requests_running)", f"{model} running"),
            over_time("sum by (model_name) (vllm:num_requests_waiting)", f"{model} waiting"),
        ],
        look.COUNT,
        size=(8, 8),
        empty=NO_VLLM,
    )
    first = rate("vllm:time_to_first_token_seconds_bucket")
    yield panel.lines(
        "Time to the first token, slowest engine",
        "Median and 95th percentile over the requests of each engine; of each model, its slowest engine.",
        [
            over_time(
                f"max by (model_name) (histogram_quantile({quantile}, sum by (model_name, instance, le) ({first})))",
                f"{model} p{quantile * 100:.0f}",
            )
            for quantile in (0.5, 0.95)
        ],
        units.Seconds,
        size=(8, 8),
        empty=NO_VLLM,
    )


def _triton() -> Iterator[timeseries.Panel]:
    model = "{{model}}"
    done = f"sum by (model, instance) ({rate('nv_inference_request_success')})"

    def slowest(microseconds: str) -> str:
        spent = f"sum by (model, instance) ({rate(microseconds)})"
        return f"max by (model) ({spent} / ({done} > 0)) / 1e6"

    yield panel.lines(
        "Inferences per second",
        "By model, batching included.",
        over_time(f"sum by (model) ({rate('nv_inference_count')})", model),
        units.OpsPerSecond,
        size=(8, 8),
        empty=NO_TRITON,
    )
    yield panel.lines(
        "Requests per second",
        "Served and failed.",
        [
            over_time(f"sum by (model) ({rate('nv_inference_request_success')})", f"{model} served"),
            over_time(f"sum by (model) ({rate('nv_inference_request_failure')})", f"{model} failed"),
        ],
        units.RequestsPerSecond,
        size=(8, 8),
        empty=NO_TRITON,
    )
    yield panel.lines(
        "Time per request, slowest engine",
        "Mean over the requests of each engine, in the queue and in all; of each model, its slowest engine.",
        [
            over_time(slowest("nv_inference_queue_duration_us"), f"{model} queue"),
            over_time(slowest("nv_inference_request_duration_us"), f"{model} all"),
        ],
        units.Seconds,
        size=(8, 8),
        empty=NO_TRITON,
    )
