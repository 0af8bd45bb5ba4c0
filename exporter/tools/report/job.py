"""The report on one job or pod: a dozen queries, and what their answers amount to."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.ledger.states import STATES
from exporter.tools.report import advice, promql
from exporter.tools.report.client import Client, NoDataError, NoMetricsError, Sample, SeveralError
from exporter.tools.report.definitions import Hours, allocated
from exporter.tools.report.model import DeviceUse, JobReport, Name, NodeUse, Span
from exporter.tools.report.progress import Ask, progress, runs
from exporter.tools.report.subject import allocated_span

_HOUR_SECONDS = 3600.0
_BEFORE_SECONDS = 60.0
"""Seconds before its first sample from which on the workload's own counters are looked at: they begin at 0, and what
they had at that sample is not to be subtracted."""
_AFTER_SECONDS = 60.0
"""Seconds after its last sample with GPUs: the sample in which they are complete comes a scrape after its end."""
_ALWAYS = 0.98
"""Fraction of the time of its GPUs: a shorter one did not have each of them from its start to its end."""
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A question: matchers that select its series, and how it is called."""

    selector: str
    title: str
    since: float
    """Seconds before now to look back."""
    changed_at: float | None = None
    """Unix time that the runs of its name are compared before and after."""


def job_report(client: Client, request: ReportRequest, now: float) -> JobReport:
    """Raises ReportError; NoDataError where nothing is known of it in the range, or of several of that name."""
    span = allocated_span(client, request.selector, request.since, now)
    if span is None:
        raise nothing(client, request.title, request.since, now)
    ask = _make_asker(client, request.selector, window(span.seconds), span.until)
    before, after = 0.0 if span.truncated else _BEFORE_SECONDS, min(_AFTER_SECONDS, now - span.until)
    wider = _make_asker(client, request.selector, window(span.seconds + before + after), span.until + after)
    info = wider(promql.info)
    clusters = sorted({sample.labels.get("cluster", "") for sample in info} - {""})
    if len(clusters) > 1:  # what is called the same in two clusters is two
        raise SeveralError(f"{request.title} is in several clusters, name one by --cluster: {', '.join(clusters)}")
    nodes = tuple(_node_uses(wider))
    hours = _sum_hours(node.hours for node in nodes)
    devices = tuple(_device_uses(ask, span, allocated(hours)))
    at_once = wider(promql.max_concurrent_gpus) if len(nodes) > 1 else ()
    together = wider(promql.devices_at_once) if len(devices) > 1 else ()
    moved = bool(together) and len(devices) > together[0].value
    ran = wider(lambda s, w: promql.of_nodes("gpu_workload_busy_gpu_seconds_total", s, w))
    used = sum(sample.value for sample in ran) / _HOUR_SECONDS if ran else None
    steps = progress(wider, devices, allocated(hours))
    counted = any(steps.counted.values())
    limit = _agreed_label(info, "time_limit_seconds")
    pool = _agreed_label(info, "partition") or _agreed_label(info, "label_pool")
    prices = {  # those of the job's own pool win
        " MIG ".join(each.labels[name] for name in ("model", "profile") if each.labels.get(name)): each.value
        for each in sorted(ask(promql.mean_prices), key=lambda price: price.labels.get("pool", "") != "")
        if each.labels.get("cluster", "") in (clusters or ("",)) and each.labels.get("pool", "") in {"", pool}
    }
    fields = ("workload", "job_name", "user", "account", "workload_namespace", "partition", "image")
    return JobReport(
        name=Name(request.title, *(_agreed_label(info, field) for field in fields)),
        span=replace(span, time_limit=float(limit) if re.fullmatch(r"\d+(\.\d+)?", limit) else None),
        hours=hours,
        nodes=nodes,
        devices=devices,
        progress=steps,
        cost=_mean_cost(allocated(hours), devices, prices),
        advice=advice.of_job(hours, devices, nodes, moved=moved),
        used_hours=used,
        runs=runs(client, info, window(request.since), now, request.changed_at) if counted else None,
        gpus_at_once=at_once[0].value if at_once else None,
        moved=moved,
    )


def slurm_job(client: Client, cluster: str, job: str, back: float, until: float) -> JobReport:
    """Return the report of a raw job id, `back` seconds up to `until`; `cluster` may be empty. Raises ReportError."""
    own = {"cluster": cluster} if cluster else {}
    request = ReportRequest(promql.matchers(slurm_job=job, **own), f"Slurm job {job}", back)
    return job_report(client, request, until)


def _make_asker(client: Client, selector: str, window: str, time: float) -> Ask:
    return lambda query: client.instant(query(selector, window), time)


def window(seconds: float) -> str:
    return f"{max(1, math.ceil(seconds))}s"


def nothing(client: Client, title: str, since: float, now: float) -> Exception:
    if not client.instant(f"count_over_time({promql.ANY_METRICS}[{window(since)}:1h])", now) and not client.instant(
        promql.ANY_METRICS, now
    ):
        return NoMetricsError("this Prometheus has no metrics of gpu-exporter")
    last = f"{since / 86400:g} d" if since >= 86400 else f"{since / 3600:g} h"  # noqa: PLR2004 - a day
    return NoDataError(f"no data about {title} in the last {last}: unknown here, or no GPU was allocated")


def _agreed_label(info: Sequence[Sample], label: str) -> str:
    """Return the value that all series agree on: programs of several people have no owner."""
    labels = {sample.labels.get(label, "") for sample in info} - {""}
    return labels.pop() if len(labels) == 1 else ""


def _node_name(labels: Mapping[str, str]) -> str:
    return labels.get("node") or labels.get("instance", "")


def _by_node(samples: Iterable[Sample]) -> Mapping[str, float]:
    found: dict[str, float] = defaultdict(float)
    for sample in samples:
        found[_node_name(sample.labels)] += sample.value
    return found


def _node_uses(ask: Ask) -> Iterable[NodeUse]:
    ledgers: dict[str, dict[str, float]] = defaultdict(dict)
    for sample in ask(lambda s, w: promql.of_nodes("gpu_workload_gpu_seconds_total", s, w, "state")):
        ledgers[_node_name(sample.labels)][sample.labels["state"]] = sample.value / _HOUR_SECONDS
    gpus = _by_node(ask(promql.nodes))
    energy = _by_node(ask(lambda s, w: promql.of_nodes("gpu_workload_energy_joules_total", s, w)))
    cpu = _by_node(ask(lambda s, w: promql.of_nodes("gpu_workload_cpu_seconds_total", s, w)))
    cores, resident, limit = (
        _by_node(ask(lambda s, w, name=name: promql.highest(name, s, w)))  # type: ignore[misc]
        for name in (
            "gpu_workload_cpu_limit_cores",
            "gpu_workload_resident_memory_bytes",
            "gpu_workload_memory_limit_bytes",
        )
    )
    for node in sorted(gpus):
        yield NodeUse(
            node=node,
            gpus=gpus[node],
            hours=_order_hours(ledgers.get(node, {})),
            energy_joules=energy.get(node),
            cpu_seconds=cpu.get(node),
            cpu_limit_cores=cores.get(node),
            resident_bytes=resident.get(node),
            memory_limit_bytes=limit.get(node),
        )


def _device_uses(ask: Ask, span: Span, hours: float) -> Iterable[DeviceUse]:
    """Yield each device with its allocated time: all of the span, unless these hours are fewer."""
    named = ask(promql.models)
    models = {_sample_key(s): s.labels.get("model", "") for s in named}
    of_gpu = {(_node_name(s.labels), s.labels.get("gpu", "")): s.labels.get("model", "") for s in named}
    instances = ask(promql.mig_fractions)
    cut = {(_node_name(s.labels), s.labels.get("gpu", "")) for s in instances}
    whole = [s for s in ask(promql.shares) if (_node_name(s.labels), s.labels.get("gpu", "")) not in cut]
    always = hours * _HOUR_SECONDS >= _ALWAYS * span.seconds * sum(sample.value for sample in (*whole, *instances))
    for shares, prefix in ((whole, "gpu_"), (instances, "gpu_mig_")):
        if not shares:
            continue
        readings = _device_readings(ask, prefix, span) if always else _readings_in_turn(ask, prefix, len(shares))
        for sample in sorted(shares, key=_sample_place):
            key = _sample_key(sample)
            profile = sample.labels.get("profile", "")
            model = models.get(key) or of_gpu.get((_node_name(sample.labels), sample.labels.get("gpu", "")), "")
            yield DeviceUse(
                node=_node_name(sample.labels),
                gpu=sample.labels.get("gpu", ""),
                uuid=sample.labels.get("uuid", ""),
                model=f"{model} MIG {profile}" if profile else model,
                share=sample.value,
                hours=_order_hours(readings.ledger.get(key, {})),
                memory_peak_bytes=readings.peak.get(key),
                memory_total_bytes=readings.size.get(key),
                power_watts=readings.power.get(key),
                sm_active=readings.sm_active.get(key),
                copied_bytes=readings.copied.get(key),
            )


_COPIED = 'gpu_pcie_bytes_total{direction="receive"}'


@dataclass(frozen=True, slots=True)
class _Readings:
    ledger: Mapping[_Key, Mapping[str, float]]
    peak: Mapping[_Key, float]
    size: Mapping[_Key, float]
    power: Mapping[_Key, float]
    sm_active: Mapping[_Key, float]
    copied: Mapping[_Key, float]


def _device_readings(ask: Ask, prefix: str, span: Span) -> _Readings:
    mig = prefix == "gpu_mig_"

    def read(expr: Callable[[str], str], *more: str) -> Sequence[Sample]:
        return ask(lambda s, w: promql.on_devices(expr(w), s, w, *more, mig=mig))

    ledger: dict[_Key, dict[str, float]] = defaultdict(dict)
    for sample in read(lambda w: promql.increase_since_first_sample(f"{prefix}state_seconds_total", w), "state"):
        ledger[_sample_key(sample)][sample.labels["state"]] = sample.value / _HOUR_SECONDS
    active = read(lambda w: promql.increase_since_first_sample(f"{prefix}sm_active_seconds_total", w))
    return _Readings(
        ledger=ledger,
        peak=_by_key(read(lambda w: f"max_over_time({prefix}memory_used_bytes[{w}])")),
        size=_by_key(read(lambda w: f"max_over_time({prefix}memory_total_bytes[{w}])")),
        power={} if mig else _by_key(read(lambda w: f"avg_over_time(gpu_power_watts[{w}])")),
        sm_active={key: value / span.seconds for key, value in _by_key(active).items()},
        copied={} if mig else _by_key(read(lambda w: promql.increase_since_first_sample(_COPIED, w))),
    )


def _readings_in_turn(ask: Ask, prefix: str, devices: int) -> _Readings:
    """Return readings of allocated time only, without what others did on a GPU before and after."""
    mig = prefix == "gpu_mig_"
    turns = promql.Turns(devices, mig=mig)
    ledger: dict[_Key, dict[str, float]] = defaultdict(dict)
    for sample in ask(lambda s, w: turns.grown(f"{prefix}state_seconds_total", s, w, "state")):
        ledger[_sample_key(sample)][sample.labels["state"]] = sample.value / _HOUR_SECONDS
    active = _by_key(ask(lambda s, w: turns.grown(f"{prefix}sm_active_seconds_total", s, w)))
    seconds = _by_key(ask(turns.seconds))
    total = ask(lambda s, w: promql.on_devices(f"max_over_time({prefix}memory_total_bytes[{w}])", s, w, mig=mig))
    return _Readings(
        ledger=ledger,
        peak=_by_key(ask(lambda s, w: turns.highest(f"{prefix}memory_used_bytes", s, w))),
        size=_by_key(total),
        power={} if mig else _by_key(ask(lambda s, w: turns.mean("gpu_power_watts", s, w))),
        sm_active={key: value / seconds[key] for key, value in active.items() if seconds.get(key)},
        copied={} if mig else _by_key(ask(lambda s, w: turns.grown(_COPIED, s, w))),
    )


def _sample_key(sample: Sample) -> _Key:
    return _node_name(sample.labels), sample.labels.get("uuid", "")


def _by_key(samples: Iterable[Sample]) -> Mapping[_Key, float]:
    return {_sample_key(sample): sample.value for sample in samples}


def _sample_place(sample: Sample) -> tuple[str, int, str]:
    gpu = sample.labels.get("gpu", "")
    return _node_name(sample.labels), int(gpu) if gpu.isdigit() else 0, sample.labels.get("uuid", "")


def _order_hours(hours: Mapping[str, float]) -> Hours:
    return {state: hours[state] for state in STATES if hours.get(state, 0.0) > 0}


def _sum_hours(ledgers: Iterable[Hours]) -> Hours:
    found: dict[str, float] = defaultdict(float)
    for hours in ledgers:
        for state, amount in hours.items():
            found[state] += amount
    return _order_hours(found)


def _mean_cost(hours: float | None, devices: Sequence[DeviceUse], prices: Mapping[str, float]) -> float | None:
    """So many GPU hours at the mean price of its GPUs, each counted by its share; None if a model has no price."""
    weights = [
        (prices.get(device.model, prices.get(device.model.partition(" MIG ")[0])), device.share)
        for device in devices
        if device.model
    ]
    whole = sum(weight for _, weight in weights)
    priced = [price * weight for price, weight in weights if price is not None]
    if not whole or hours is None or len(priced) < len(weights):
        return None
    return hours * sum(priced) / whole
