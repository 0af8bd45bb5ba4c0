"""Expositions of five serving engines through the recording rules, beside the ledger of the GPUs they run on.

Each file in engines/ has the names, types, labels and bounds of an exposition that was recorded or documented, and says
of which. What a counter holds is taken as what it gains each minute.
"""

from __future__ import annotations

from collections import ChainMap
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.prometheus.recordings_serving import ENGINES
from tests.contract.rules.recorded import check

EXPOSITIONS = Path(__file__).with_name("engines")
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
MODELS = {
    "vllm": LLAMA, "sglang": LLAMA, "nim": "meta/llama-3.1-8b-instruct", "tgi": "", "triton": "tensorrt_llm",
    "ollama": "llama3.1:8b",
}  # fmt: skip
UNTOLD = {
    "tgi": {"time_to_first_token_seconds"},
    "triton": {"inter_token_latency_seconds"},
    "ollama": {"time_to_first_token_seconds", "requests_running", "requests_waiting"},
}
"""What an engine does not tell."""
TIMES = {"triton": {"first": (0.5, 2)}, "tgi": {"between": (0.029, 0.044)}}
"""Medians and 95th percentiles by the bounds of an engine that has bounds of its own."""
POD = 'namespace="ml",pod="serve-0"'
OWNED = 'workload_namespace="ml",workload_pod="serve-0"'
ALLOCATED = (
    'cluster="c1",instance="gpu1:9836",kind="{kind}",workload_namespace="{namespace}",workload_pod="{pod}",workload="{workload}",'
    'workload_container="",slurm_job="{job}",user="ada",account="",partition=""'
)
WORDS = ("kind", "namespace", "pod", "workload", "job")


def allocated(*words: str) -> str:
    return ALLOCATED.format(**dict(zip(WORDS, words, strict=True)))


IN_POD = allocated("pod", "ml", "serve-0", "ml/serve-0", "")
JOB, OTHER = allocated("slurm", "", "", "slurm:7", "7"), allocated("slurm", "", "", "slurm:8", "8")


def scraped(engine: str, target: str) -> dict[str, str]:
    """The series of an exposition as Prometheus has them, with the target's labels."""
    found: dict[str, str] = {}
    text = (EXPOSITIONS / f"{engine}.prom").read_text()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            rises = family.type in {"counter", "histogram"}
            values = f"0+{sample.value:g}x30" if rises else f"{sample.value:g}x30"
            name = sample.name if sample.name in text else sample.name.removesuffix("_total")  # the parser adds it
            found[f"{name}{{{','.join(part for part in (labels, target) if part)}}}"] = values
    return found


def gpus(owner: str, number: int, *ports: int) -> dict[str, str]:
    """An owner's GPUs: three quarters of their time bound by memory, their multiprocessors active for 60 % of it."""
    devices = [f'gpu="{gpu}",uuid="GPU-{ports[0]}-{gpu}"' for gpu in range(number)]
    there = 'cluster="c1",instance="gpu1:9836"'
    return {
        f'gpu_workload_gpu_seconds_total{{{owner},state="memory_bound"}}': f"0+{number * 45}x30",
        f'gpu_workload_gpu_seconds_total{{{owner},state="allocated_idle"}}': f"0+{number * 15}x30",
        **{f"gpu_sm_active_seconds_total{{{there},{device}}}": "0+36x30" for device in devices},
        **{f'gpu_info{{{there},{device},model="NVIDIA H200"}}': "1x30" for device in devices},
        **{f"gpu_allocation_ratio{{{owner},{device}}}": "1x30" for device in devices},
        f"gpu_workload_allocated_gpus{{{owner}}}": f"{number}x30",
        f"gpu_workload_energy_joules_total{{{owner}}}": f"0+{number * 30_000}x30",
        **{f'gpu_workload_listen_port{{{owner},port="{port}"}}': "1x30" for port in ports},
    }


def of(engine: str, where: str) -> str:
    model = f',model_name="{MODELS[engine]}"' if MODELS[engine] else ""
    return f'cluster="c1",engine="{engine}",instance="gpu1:8000"{model}{where}'


@pytest.mark.parametrize("services", [("serve",), ("serve", "serve-headless")], ids=["once", "by two services"])
@pytest.mark.parametrize("engine", ENGINES)
def test_engine_in_a_pod(engine: str, services: tuple[str, ...], tmp_path: Path) -> None:
    """However many services select the pod, and are scraped."""
    target = f'cluster="c1",instance="gpu1:8000",{POD}'
    each = [scraped(engine, f'{target},job="{service}",service="{service}"') for service in services]
    labels = of(engine, f",{OWNED}")
    place = f'cluster="c1",{OWNED}'
    times = {"first": (0.25, 0.5), "between": (0.025, 0.05), **TIMES.get(engine, {})}
    first, between = times["first"], times["between"]

    def told(name: str, value: float) -> dict[str, float]:
        return {} if name in UNTOLD.get(engine, ()) else {labels: value}

    check(
        tmp_path,
        {"gpu-device", "gpu-part", "gpu-allocated", "gpu-serving"},
        {**ChainMap(*each), **gpus(IN_POD, 2, 8000)},
        {
            "engine:llm_requests:rate5m": {labels: 2},
            "engine:llm_requests_waiting:sum": told("requests_waiting", 3),
            "engine:llm_requests_running:sum": told("requests_running", 12),
            "engine:llm_generated_tokens:rate5m": {labels: 2000},
            "engine:llm_prompt_tokens:rate5m": {labels: 1000},
            "engine:llm_time_to_first_token_seconds:p50_5m": told("time_to_first_token_seconds", first[0]),
            "engine:llm_time_to_first_token_seconds:p95_5m": told("time_to_first_token_seconds", first[1]),
            "engine:llm_inter_token_latency_seconds:p50_5m": told("inter_token_latency_seconds", between[0]),
            "engine:llm_inter_token_latency_seconds:p95_5m": told("inter_token_latency_seconds", between[1]),
            "serving:llm_tokens_per_gpu_second:ratio_rate5m": {place: 1000},
            "serving:llm_tokens_per_joule:ratio_rate5m": {place: 2},
            "serving_state:gpu_workload_gpu_seconds:rate5m": {
                f'{place},state="memory_bound"': 1.5,
                f'{place},state="allocated_idle"': 0.5,
            },
            "serving:gpu_sm_active:ratio_rate5m": {place: 0.6},
            "serving_model:gpu_allocation_ratio:sum": {f'{place},model="NVIDIA H200"': 2},
        },
    )


def test_engines_on_a_bare_host_are_told_apart_by_their_port(tmp_path: Path) -> None:
    target = 'cluster="c1",instance="gpu1:{}"'
    check(
        tmp_path,
        {"gpu-device", "gpu-part", "gpu-allocated", "gpu-serving"},
        {
            **scraped("vllm", target.format(8000)),
            **scraped("sglang", target.format(30000)),
            **gpus(JOB, 1, 8000),
            **gpus(OTHER, 4, 30000, 9000),
        },
        {
            "serving:llm_tokens_per_gpu_second:ratio_rate5m": {
                'cluster="c1",host="gpu1",port="8000"': 2000,
                'cluster="c1",host="gpu1",port="30000"': 500,
            },
            "serving:llm_tokens_per_joule:ratio_rate5m": {
                'cluster="c1",host="gpu1",port="8000"': 4,
                'cluster="c1",host="gpu1",port="30000"': 1,
            },
            "serving_state:gpu_workload_gpu_seconds:rate5m": {
                f'cluster="c1",host="gpu1",port="{port}",state="{state}"': share * number
                for port, number in ((8000, 1), (30000, 4))
                for state, share in (("memory_bound", 0.75), ("allocated_idle", 0.25))
            },
            "serving:gpu_sm_active:ratio_rate5m": {
                'cluster="c1",host="gpu1",port="8000"': 0.6,
                'cluster="c1",host="gpu1",port="30000"': 0.6,
            },
            "serving_model:gpu_allocation_ratio:sum": {
                'cluster="c1",host="gpu1",model="NVIDIA H200",port="8000"': 1,
                'cluster="c1",host="gpu1",model="NVIDIA H200",port="30000"': 4,
            },
        },
    )


def test_lost_gpu_and_one_of_others_are_not_in_the_mean_of_multiprocessors(tmp_path: Path) -> None:
    there, device = 'cluster="c1",instance="gpu1:9836"', 'gpu="{0}",uuid="GPU-8000-{0}"'
    series = scraped("vllm", f'cluster="c1",instance="gpu1:8000",{POD}') | gpus(IN_POD, 4, 8000)
    series[f"gpu_sm_active_seconds_total{{{there},{device.format(3)}}}"] = "900x30"
    series[f"gpu_sm_active_seconds_total{{{there},{device.format(2)}}}"] = "0x30"
    series[f"gpu_allocation_ratio{{{IN_POD},{device.format(2)}}}"] = "0x30"
    up = {f"gpu_up{{{there},{device.format(gpu)}}}": f"{int(gpu != 3)}x30" for gpu in range(4)}

    check(
        tmp_path,
        {"gpu-device", "gpu-part", "gpu-allocated", "gpu-serving"},
        series | up,
        {"serving:gpu_sm_active:ratio_rate5m": {f'cluster="c1",{OWNED}': 0.6}},
    )


def test_older_releases_call_the_time_between_tokens_otherwise(tmp_path: Path) -> None:
    old = "vllm:time_per_output_token_seconds"
    series = scraped("vllm", f'cluster="c1",instance="gpu1:8000",{POD}')
    series = {name.replace("vllm:inter_token_latency_seconds", old): values for name, values in series.items()}
    check(
        tmp_path,
        {"gpu-part", "gpu-allocated", "gpu-serving"},
        series,
        {"engine:llm_inter_token_latency_seconds:p50_5m": {of("vllm", f",{OWNED}"): 0.025}},
    )


def test_numbers_that_are_called_as_nims_but_are_nobodys_model_are_left_out(tmp_path: Path) -> None:
    check(
        tmp_path,
        {"gpu-part", "gpu-allocated", "gpu-serving"},
        {'generation_tokens_total{cluster="c1",instance="gpu1:8000"}': "0+60x30"},
        {"engine:llm_generated_tokens:rate5m": {}},
    )
