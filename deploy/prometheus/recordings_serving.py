"""Recording rules of serving engines by their own metrics, and beside the ledger of the GPUs they run on.

Names are those of the engines' documentation: vLLM and SGLang with their prefix, NIM as vLLM without one, TGI's and
Triton's own (tokens are those of its TensorRT-LLM backend). Ollama has none; the proxy ollama-metrics counts for it.
What an engine does not report has no series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings_common import record_each
from deploy.prometheus.recordings_device import PART_MODELS
from deploy.prometheus.recordings_owner import PART_STATES
from exporter.tools.report.definitions import SCRAPE

_POD = ("workload_namespace", "workload_pod")
_OF_POD = f"cluster, {', '.join(_POD)}"
BY = (*_POD, "instance", "model_name", "engine")
_HOLDER = (*_POD, "host", "port")
"""A pod where the engine is scraped as one, else the host and port it is scraped at."""
_QUANTILES = {"p50": 0.5, "p95": 0.95}


@dataclass(frozen=True, slots=True)
class Engine:
    """Names of each number; empty where the engine does not report it. Histograms without their ending."""

    label: str = "model_name"
    generated: str = ""
    prompt: str = ""
    requests: str = ""
    running: str = ""
    waiting: str = ""
    until_first: str = ""
    between_tokens: str = ""
    scale: str = ""
    """Factor from the engine's unit of time to seconds."""


def _prefixed(prefix: str, between: str, running: str, waiting: str) -> Engine:
    return Engine(
        generated=f"{prefix}generation_tokens_total",
        prompt=f"{prefix}prompt_tokens_total",
        requests=f"{prefix}e2e_request_latency_seconds_count",
        running=f"{prefix}{running}",
        waiting=f"{prefix}{waiting}",
        until_first=f"{prefix}time_to_first_token_seconds",
        between_tokens=between,
    )


ENGINES: Mapping[str, Engine] = {
    "vllm": _prefixed(
        "vllm:",
        "vllm:(inter_token_latency|time_per_output_token)_seconds",
        "num_requests_running",
        "num_requests_waiting",
    ),
    "sglang": _prefixed(
        "sglang:", "sglang:(inter_token_latency|time_per_output_token)_seconds", "num_running_reqs", "num_queue_reqs"
    ),
    "nim": _prefixed("", "time_per_output_token_seconds", "num_requests_running", "num_requests_waiting"),
    "tgi": Engine(
        label="model_id",
        generated="tgi_request_generated_tokens_sum",
        prompt="tgi_request_input_length_sum",
        requests="tgi_request_duration_count",
        running="tgi_batch_current_size",
        waiting="tgi_queue_size",
        between_tokens="tgi_request_mean_time_per_token_duration",
    ),
    "triton": Engine(
        label="model",
        generated="nv_llm_output_token_len_sum",
        prompt="nv_llm_input_token_len_sum",
        requests="nv_inference_request_success",
        running='nv_trt_llm_request_metrics{request_type="scheduled"}',
        waiting="nv_inference_pending_request_count",
        until_first="nv_inference_first_response_histogram_ms",
        scale=" / 1000",
    ),
    "ollama": Engine(
        label="model",
        generated="ollama_generated_tokens_total",
        prompt="ollama_prompt_tokens_total",
        requests="ollama_request_duration_seconds_count",
        between_tokens="ollama_time_per_token_seconds",
    ),
}


def _rates(metric: str, engine: str) -> str:
    """The rate of a counter or histogram; `(a|b)` in its name are names of several of the engine's releases."""
    head, _, rest = metric.partition("(")
    choices, _, tail = rest.partition(")")
    names = [f"{head}{choice}{tail}" for choice in choices.split("|")] if rest else [metric]
    return " or ".join(f"rate({_named(name, engine)}[5m])" for name in names)


def _named(metric: str, engine: str) -> str:
    """NIM's names are anybody's: the label of its model distinguishes them."""
    return f'{metric}{{model_name!=""}}' if engine == "nim" else metric


def _labelled(expr: str, engine: str) -> str:
    """Return the expression with the labels that all engines' series have."""
    label = ENGINES[engine].label
    if label != "model_name":
        expr = f'sum without ({label}) (label_replace({expr}, "model_name", "$1", "{label}", "(.*)"))'
    return expr


def _of_all(field: str, expr: str) -> Iterator[tuple[Mapping[str, str], str]]:
    """`expr` of the series of this kind (`<series>`, `<rate>`), by engine; `<scale>` is to seconds."""
    for name, engine in ENGINES.items():
        metric = getattr(engine, field)
        if metric:
            histogram = field in {"until_first", "between_tokens"}
            rates = _rates(f"{metric}_bucket" if histogram else metric, name)
            made = expr.replace("<rate>", rates).replace("<series>", _named(metric, name))
            made = made.replace("<label>", engine.label).replace("<scale>", engine.scale)
            yield {"engine": name}, _of_pods(_labelled(made, name))


def _of_pods(expr: str) -> str:
    """Return the expression with the pod that the target is, under the labels by which owners are named."""
    for label in ("namespace", "pod"):
        expr = f'label_replace({expr}, "workload_{label}", "$1", "{label}", "(.*)")'
    return f"sum without (namespace, pod) ({expr})"


def _record(record: str, expr: str, help: str, by: tuple[str, ...] = BY) -> Recording:
    return Recording(record=record, expr=expr, help=help, by=by)


_EACH = "by (cluster, namespace, pod, instance, <label>)"
_ONCE = f"max without ({SCRAPE})"
"""A pod that two services select is scraped twice. The labels that are left distinguish parts of the engine."""


def _total(name: str, field: str, text: str) -> Recording:
    return record_each(f"engine:llm_{name}:rate5m", BY, _of_all(field, f"sum {_EACH} ({_ONCE} (<rate>))"), text)


def _level(name: str, field: str, text: str) -> Recording:
    return record_each(f"engine:llm_{name}:sum", BY, _of_all(field, f"sum {_EACH} ({_ONCE} (<series>))"), text)


def _quantiles(name: str, field: str, text: str) -> tuple[Recording, ...]:
    per = "by (cluster, namespace, pod, instance, <label>, le)"
    return tuple(
        record_each(
            f"engine:llm_{name}_seconds:{quantile}_5m",
            BY,
            _of_all(field, f"histogram_quantile({number}, sum {per} (<rate>))<scale>"),
            f"{text}, {quantile} of the last five minutes.",
        )
        for quantile, number in _QUANTILES.items()
    )


def _place(expr: str) -> str:
    """Return where an engine runs: its pod, or the host and port it is scraped at."""
    host = 'label_replace({}, "host", "$1", "instance", "(.*):[0-9]+")'
    host = f'label_replace({host}, "port", "$1", "instance", ".*:([0-9]+)")'
    pods, bare = expr.replace("<pod>", 'workload_pod!=""'), expr.replace("<pod>", 'workload_pod=""')
    return f"sum by ({_OF_POD}) ({pods}) or sum by (cluster, host, port) ({host.format(bare)})"


def _holders(metric: str) -> str:
    """Return the metric of the workloads of each pod, or of the listener on the port of the host."""
    listens = 'max by (cluster, instance, workload, port) (gpu_workload_listen_port{workload_pod=""})'
    own, of_pods = metric.replace("<pod>", 'workload_pod=""'), metric.replace("<pod>", 'workload_pod!=""')
    allocated = f"max by (cluster, instance, workload) ({own})"
    joined = f"{listens} * on (cluster, instance, workload) group_left () {allocated}"
    bare = f'label_replace({joined}, "host", "$1", "instance", "(.*):[0-9]+")'
    pods = f"sum by ({_OF_POD}) (max by ({_OF_POD}, instance, workload_container) ({of_pods}))"
    return f"{pods} or sum by (cluster, host, port) ({bare})"


_LISTENER = "serving:gpu_workload_listen_port:first"
_LISTENS = (
    'label_replace(max by (cluster, instance, workload, port) (gpu_workload_listen_port{workload_pod=""}),'
    ' "host", "$1", "instance", "(.*):[0-9]+")'
)
_SCRAPED = (
    'label_replace(label_replace(engine:llm_requests:rate5m{workload_pod=""}, "host", "$1", "instance", "(.*):[0-9]+"),'
    ' "port", "$1", "instance", ".*:([0-9]+)")'
)
_ENGINE_PODS = '(engine:llm_requests:rate5m{workload_pod!=""})'


def _of_serving(operation: str, of_owners: str, more: str = "") -> str:
    """Numbers of what serves, over its workload: `of_owners` gets the matchers of pods or of all else."""
    of_pods, own = (of_owners.replace("<pod>", pod) for pod in ('workload_pod!=""', 'workload_pod=""'))
    pods = f"{operation} by ({_OF_POD}{more}) ({of_pods}) and on ({_OF_POD}) {_ENGINE_PODS}"
    joined = f"({own}) * on (cluster, instance, workload) group_left (host, port) {_LISTENER}"
    return f"{pods} or {operation} by (cluster, host, port{more}) ({joined})"


_SM = (
    # Not of a lost GPU, whose counters stand still, and not of one that is not its own.
    f"(max by ({_OF_POD}, instance, uuid, workload) (gpu_allocation_ratio{{<pod>}} > 0) ^ 0)"
    " * on (cluster, instance, uuid) group_left ()"
    " max by (cluster, instance, uuid) (rate(gpu_sm_active_seconds_total[5m])"
    " unless on (cluster, instance, uuid) gpu_up == 0)"
)
_GPUS, _JOULES = "gpu_workload_allocated_gpus{<pod>}", "rate(gpu_workload_energy_joules_total{<pod>}[5m])"
_TOKENS = "engine:llm_generated_tokens:rate5m{<pod>}"

SERVING = (
    _total("generated_tokens", "generated", "Tokens the engine generates a second."),
    _total("prompt_tokens", "prompt", "Tokens of prompts the engine works off a second."),
    _total("requests", "requests", "Requests the engine ends a second."),
    _level("requests_running", "running", "Requests in work."),
    _level("requests_waiting", "waiting", "Requests that wait in the engine's queue."),
    *_quantiles("time_to_first_token", "until_first", "Time to the first token"),
    *_quantiles("inter_token_latency", "between_tokens", "Time from one token to the next"),
    _record(
        "serving:gpu_workload_allocated_gpus:sum",
        _holders(_GPUS),
        "Allocated GPUs by what serves: by pod, and by the host and port it listens on.",
        _HOLDER,
    ),
    _record(
        "serving:gpu_workload_energy_joules:rate5m",
        _holders(_JOULES),
        "Joules a second of what serves, of pods and of what listens on a port.",
        _HOLDER,
    ),
    _record(
        _LISTENER,
        f"topk by (cluster, instance, workload) (1, {_LISTENS} and on (cluster, host, port) ({_SCRAPED}))",
        "Of each workload that serves and is no pod, the host and port its engine is scraped at.",
        ("instance", "workload", "host", "port"),
    ),
    _record(
        "serving_state:gpu_workload_gpu_seconds:rate5m",
        _of_serving("sum", f"{PART_STATES.record}{{<pod>}}", ", state"),
        "GPUs' worth of time of what serves, by state: is it bound by memory, busy, or idle while requests wait?",
        (*_HOLDER, "state"),
    ),
    _record(
        "serving:gpu_sm_active:ratio_rate5m",
        _of_serving("avg", _SM),
        "Mean fraction of time that a warp was on a multiprocessor, over the GPUs of what serves.",
        _HOLDER,
    ),
    _record(
        "serving_model:gpu_allocation_ratio:sum",
        _of_serving("sum", f"{PART_MODELS.record}{{<pod>}}", ", model, pool"),
        "Allocated GPUs by what serves, by model: what prices multiply.",
        (*_HOLDER, "model", "pool"),
    ),
    _record(
        "serving:llm_generated_tokens:rate5m",
        _place(_TOKENS),
        "Tokens generated a second, by pod or by host and port.",
        _HOLDER,
    ),
    _record(
        "serving:llm_tokens_per_gpu_second:ratio_rate5m",
        "serving:llm_generated_tokens:rate5m / (serving:gpu_workload_allocated_gpus:sum > 0)",
        "Tokens generated per second and allocated GPU.",
        _HOLDER,
    ),
    _record(
        "serving:llm_tokens_per_joule:ratio_rate5m",
        "serving:llm_generated_tokens:rate5m / (serving:gpu_workload_energy_joules:rate5m > 0)",
        "Tokens generated per joule of the GPUs.",
        _HOLDER,
    ),
)
