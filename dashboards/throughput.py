"""Throughput: what training and serving programs get done, beside what their GPUs do."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import link, look, panel, states, uid, variable
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, dominant, over_time, rate, worst
from dashboards.parts.table import Key, Table, Value, gauge, lost_state

SCOPE = 'cluster=~"$cluster", workload=~"$workload"'
SILENT = "No program of the selection reports its progress"
NO_VLLM = "No vLLM server is scraped by this Prometheus"
NO_TRITON = "No Triton server is scraped by this Prometheus"
BY_WORKLOAD = "{{workload}}"


def throughput() -> build.Dashboard:
    made = dashboard(
        "Throughput",
        uid.THROUGHPUT,
        "Steps, samples and tokens per second, progress and time to the end, beside the ledger of the GPUs.",
        (variable.many("workload", "Workload", f"label_values(gpu_workload_steps_total{{{CLUSTER}}}, workload)"),),
        scope=SCOPE,
    )
    made.with_row(build.Row("Training"))
    made.with_panel(_programs())
    _training(made)
    made.with_row(build.Row("What their GPUs did meanwhile"))
    _ledger(made)
    made.with_row(build.Row("Serving: vLLM"))
    _vllm(made)
    made.with_row(build.Row("Serving: Triton"))
    _triton(made)
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
            Value("GPUs", f"gpu_workload_gpus{{{SCOPE}}}{only}", "short", decimals=1, width=70, reduce="sum"),
            gauge(
                "Utilization", f"workload:gpu_utilization:ratio_rate5m{{{SCOPE}}}{only}", look.GOOD_IS_HIGH, width=140
            ),
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
    steps, samples = rate(f"gpu_workload_steps_total{{{SCOPE}}}"), rate(f"gpu_workload_samples_total{{{SCOPE}}}")
    gpus = f"sum by (cluster, workload) (gpu_workload_gpus{{{SCOPE}}})"
    joules = rate(f"gpu_workload_energy_joules_total{{{SCOPE}}}")
    made.with_panel(
        panel.lines(
            "Steps per second",
            "As the programs report.",
            over_time(f"max by (workload) ({steps})", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 8),
            empty=SILENT,
        )
    )
    made.with_panel(
        panel.lines(
            "Samples per second and GPU",
            "Samples or tokens, per GPU held: what a scaling test compares.",
            over_time(f"sum by (cluster, workload) ({samples}) / ({gpus} > 0)", BY_WORKLOAD),
            units.OpsPerSecond,
            size=(8, 8),
            empty=SILENT,
        )
    )
    made.with_panel(
        panel.lines(
            "Energy per sample",
            "Joules of its GPUs per sample or token.",
            over_time(f"sum by (workload) ({joules}) / (sum by (workload) ({samples}) > 0)", BY_WORKLOAD),
            units.Joule,
            size=(8, 8),
            empty=SILENT,
        )
    )


def _ledger(made: build.Dashboard) -> None:
    reports = (
        f"and on (cluster, workload) (gpu_workload_steps_total{{{SCOPE}}} or gpu_workload_samples_total{{{SCOPE}}})"
    )
    seconds = f"(workload_state:gpu_workload_gpu_seconds:rate5m{{{SCOPE}}} {reports})"
    made.with_panel(
        panel.ledger(
            "Held GPUs by state",
            "The GPUs of the programs above, by state. When steps per second fall, the colour that grows is the cause.",
            over_time(f"sum by (state) ({seconds})"),
            size=(12, 10),
            empty=SILENT,
        )
    )
    made.with_panel(
        panel.timeline(
            "What each one mostly did",
            "The state in which each workload spent most of each step; of many, the 12 that wasted most.",
            over_time(dominant(f"({seconds} and on (cluster, workload) {worst(SCOPE)})", "workload"), BY_WORKLOAD),
            states.by_code(),
            size=(12, 10),
            empty=SILENT,
        )
    )


def _vllm(made: build.Dashboard) -> None:
    model = "{{model_name}}"
    made.with_panel(
        panel.lines(
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
    )
    made.with_panel(
        panel.lines(
            "Requests",
            "Running and waiting. Waiting ones with idle GPUs: look at the ledger.",
            [
                over_time("sum by (model_name) (vllm:num_requests_running)", f"{model} running"),
                over_time("sum by (model_name) (vllm:num_requests_waiting)", f"{model} waiting"),
            ],
            units.Short,
            size=(8, 8),
            empty=NO_VLLM,
        )
    )
    first = rate("vllm:time_to_first_token_seconds_bucket")
    made.with_panel(
        panel.lines(
            "Time to the first token",
            "Median and 95th percentile over requests.",
            [
                over_time(
                    f"histogram_quantile({quantile}, sum by (model_name, le) ({first}))",
                    f"{model} p{quantile * 100:.0f}",
                )
                for quantile in (0.5, 0.95)
            ],
            units.Seconds,
            size=(8, 8),
            empty=NO_VLLM,
        )
    )


def _triton(made: build.Dashboard) -> None:
    model = "{{model}}"
    done = f"sum by (model) ({rate('nv_inference_request_success')})"
    made.with_panel(
        panel.lines(
            "Inferences per second",
            "By model, batching included.",
            over_time(f"sum by (model) ({rate('nv_inference_count')})", model),
            units.OpsPerSecond,
            size=(8, 8),
            empty=NO_TRITON,
        )
    )
    made.with_panel(
        panel.lines(
            "Requests per second",
            "Served and failed.",
            [
                over_time(done, f"{model} served"),
                over_time(f"sum by (model) ({rate('nv_inference_request_failure')})", f"{model} failed"),
            ],
            units.RequestsPerSecond,
            size=(8, 8),
            empty=NO_TRITON,
        )
    )
    made.with_panel(
        panel.lines(
            "Time per request",
            "Mean: in the queue, and in all.",
            [
                over_time(
                    f"sum by (model) ({rate('nv_inference_queue_duration_us')}) / ({done} > 0) / 1e6", f"{model} queue"
                ),
                over_time(
                    f"sum by (model) ({rate('nv_inference_request_duration_us')}) / ({done} > 0) / 1e6", f"{model} all"
                ),
            ],
            units.Seconds,
            size=(8, 8),
            empty=NO_TRITON,
        )
    )
