"""Serving engines by their own metrics, beside the ledger of the GPUs they run on."""

from __future__ import annotations

from collections.abc import Iterator

from grafana_foundation_sdk.builders import timeseries
from grafana_foundation_sdk.models import units

from dashboards.parts import panel, price, style
from dashboards.parts.query import CLUSTER, over_time

TITLE = "Serving engines, where this Prometheus scrapes them"
_NONE = "No serving engine is scraped by this Prometheus"
_APART = "No serving engine is scraped with the labels of its pod, or by the host and port that its workload listens on"
_ENGINE = "{{engine}} {{model_name}}"
_PLACE = "{{workload_namespace}}/{{workload_pod}} {{host}}:{{port}}"
_MODEL, _WHERE = "cluster, engine, model_name", "cluster, workload_namespace, workload_pod, host, port"


def panels() -> Iterator[timeseries.Panel]:
    yield from _efficiency()
    yield from _latency()
    yield from _beside_the_ledger()


def _engine(name: str, operation: str = "sum") -> str:
    return f"{operation} by ({_MODEL}) (engine:llm_{name}{{{CLUSTER}}})"


def _efficiency() -> Iterator[timeseries.Panel]:
    tokens = f"sum by ({_WHERE}) (serving:llm_generated_tokens:rate5m{{{CLUSTER}}})"
    hourly = price.priced(f"serving_model:gpu_allocation_ratio:sum{{{CLUSTER}}}")
    rows = (
        (
            "Tokens per GPU second",
            "Generated, over the GPUs allocated to the engine's pod, or to the workload that listens on its port.",
            f"serving:llm_tokens_per_gpu_second:ratio_rate5m{{{CLUSTER}}}",
        ),
        (
            "Tokens per joule",
            "Generated, over the energy of those GPUs.",
            f"serving:llm_tokens_per_joule:ratio_rate5m{{{CLUSTER}}}",
        ),
        (
            "Tokens per unit of currency",
            f"Generated, over what those GPUs cost. {price.SOURCE}",
            f"{tokens} * 3600 / on ({_WHERE}) (sum by ({_WHERE}) ({hourly}) > 0)",
        ),
    )
    for title, text, expr in rows:
        yield panel.lines(title, text, over_time(expr, _PLACE), style.COUNT, size=(8, 8), empty=_APART)


def _latency() -> Iterator[timeseries.Panel]:
    both = (("p50", "median"), ("p95", "95 %"))
    for title, name in (
        ("Time to the first token", "time_to_first_token"),
        ("Time between tokens", "inter_token_latency"),
    ):
        yield panel.lines(
            f"{title}, slowest engine",
            "Median and 95th percentile over the requests of each engine; of each model, its slowest engine. Not all engines report it.",
            [
                over_time(_engine(f"{name}_seconds:{quantile}_5m", "max"), f"{_ENGINE} {words}")
                for quantile, words in both
            ],
            units.Seconds,
            size=(8, 8),
            empty=_NONE,
        )
    yield panel.lines(
        "Tokens per second",
        "Generated and of prompts, by engine and model.",
        [
            over_time(_engine("generated_tokens:rate5m"), f"{_ENGINE} generated"),
            over_time(_engine("prompt_tokens:rate5m"), f"{_ENGINE} prompt"),
        ],
        style.COUNT,
        size=(8, 8),
        empty=_NONE,
    )


def _beside_the_ledger() -> Iterator[timeseries.Panel]:
    yield panel.ledger(
        "GPUs of the engines by state",
        "Bound by memory while tokens come slowly: larger batches. Idle while requests wait: look at the queue beside.",
        over_time(f"sum by (state) (serving_state:gpu_workload_gpu_seconds:rate5m{{{CLUSTER}}})"),
        size=(12, 9),
        empty=_APART,
    )
    yield panel.lines(
        "SM active",
        "Fraction of time that a warp was on a multiprocessor, mean of the engine's GPUs.",
        over_time(f"serving:gpu_sm_active:ratio_rate5m{{{CLUSTER}}}", _PLACE),
        units.PercentUnit,
        size=(6, 9),
        ceiling=1,
        empty=_APART,
    )
    yield panel.lines(
        "Requests in work and in the queue",
        "A queue beside idle GPUs is a limit of the engine's own: its batch, its cache or its host.",
        [
            over_time(_engine("requests_running:sum"), f"{_ENGINE} running"),
            over_time(_engine("requests_waiting:sum"), f"{_ENGINE} waiting"),
        ],
        style.COUNT,
        size=(6, 9),
        empty=_NONE,
    )
