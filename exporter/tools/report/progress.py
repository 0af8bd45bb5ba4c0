"""Progress that programs report, from Prometheus: of one workload, of all runs of its name, and the MFU of groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from exporter.tools.report import promql
from exporter.tools.report.client import Client, Sample
from exporter.tools.report.model import WORK, DeviceUse, Progress, Run, Runs, throughput
from exporter.tools.report.promql import DEVICE

FLOPS = "workload:gpu_workload_model_flops:rate5m"
PEAKS = "workload:gpu_peak_bf16_flops:sum"
BOUND = "workload:gpu_workload_model_flops_utilization_bound:ratio_rate5m"


def reported(scope: str, by: str, window: str = "") -> str:
    """Return the query of the window, or of now: operations over what the GPUs of the same workloads could do at most.

    A workload that reports its operations is in this query, any other is in `bound`.
    """
    done, peaks = _summed_query(FLOPS, scope, window), _summed_query(PEAKS, scope, window)
    return f"sum by ({by}) ({done}) / (sum by ({by}) ({peaks} and {done}) > 0)"


def bound(scope: str, by: str, window: str = "") -> str:
    """The mean of the bounds, each weighted by what its GPUs could do."""
    most = f"avg_over_time({BOUND}{{{scope}}}[{window}])" if window else f"{BOUND}{{{scope}}}"
    if "workload" in by.split(", "):
        return f"max by ({by}) ({most})"
    peaks = _summed_query(PEAKS, scope, window)
    return f"sum by ({by}) ({most} * {peaks}) / (sum by ({by}) ({peaks} and {most}) > 0)"


def peak_flops(selector: str, window: str) -> str:
    """Operations a second that a GPU of one workload can do at most: the mean of its GPUs, each by its share."""
    allocated = f"max by ({DEVICE}) (max_over_time(gpu_allocation_ratio{{{selector}}}[{window}]))"
    peak = f"max by ({DEVICE}) (last_over_time(gpu_peak_bf16_flops[{window}]))"
    return f"sum ({allocated} * on ({DEVICE}) {peak}) / (sum ({allocated} and on ({DEVICE}) {peak}) > 0)"


def flops_bound(selector: str, window: str) -> str:
    """Return the recorded upper bound of the model FLOPs utilization of one workload."""
    return f"avg (avg_over_time({BOUND}{{{selector}}}[{window}]))"


def _summed_query(recorded: str, scope: str, window: str) -> str:
    return f"sum_over_time({recorded}{{{scope}}}[{window}])" if window else f"{recorded}{{{scope}}}"


_COUNTERS = (*WORK, "model_flops")
_RATIO, _REMAINING, _TO_TARGET = (
    "gpu_workload_progress_ratio",
    "gpu_workload_expected_seconds_remaining",
    "gpu_workload_time_to_target_seconds",
)
_REPORTED = (*(f"gpu_workload_{name}_total" for name in _COUNTERS), _RATIO, _REMAINING, _TO_TARGET)
_MAX_RUNS = 50
"""The newest: arrays have thousands of one name."""

Ask = Callable[[Callable[[str, str], str]], Sequence[Sample]]
"""Runs a query made from a selector and a window."""


def progress(ask: Ask, devices: Sequence[DeviceUse], gpu_hours: float) -> Progress:
    """Return the progress of one workload with these `devices`, allocated together or one after the other."""

    def one(query: Callable[[str, str], str]) -> float | None:
        found = ask(query)
        return found[0].value if found else None

    def last(gauge: str) -> float | None:
        return one(lambda s, w: promql.last(gauge, s, w))

    first_kernel = last("gpu_workload_time_to_first_kernel_seconds")
    if not ask(lambda s, w: promql.any_of(_REPORTED, s, w)):  # most programs report nothing: one question, not ten
        return Progress(first_kernel_seconds=first_kernel, model_flops_utilization_bound=one(flops_bound))
    counted = {name: one(lambda s, w, name=name: promql.reported(name, s, w)) for name in _COUNTERS}  # type: ignore[misc]
    flops = counted.pop("model_flops")
    peak = one(peak_flops)
    mig = any(" MIG " in device.model for device in devices)  # the peak of a part of a GPU is not known
    most = peak * gpu_hours * 3600 if peak and devices and not mig else 0.0
    utilization = flops / most if flops is not None and most > 0 else None
    return Progress(
        **counted,
        ratio=last(_RATIO),
        remaining_seconds=last(_REMAINING),
        time_to_target_seconds=last(_TO_TARGET),
        first_kernel_seconds=first_kernel,
        model_flops_utilization=utilization,
        model_flops_utilization_bound=one(flops_bound) if utilization is None else None,
    )


@dataclass(frozen=True, slots=True)
class _RunNumbers:
    """Numbers of each run, by its workload."""

    starts: Mapping[str, float]
    gpus: Mapping[str, float]
    seconds: Mapping[str, float]
    joules: Mapping[str, float]
    targets: Mapping[str, float]


def runs(
    client: Client, info: Sequence[Sample], window: str, now: float, changed_at: float | None = None
) -> Runs | None:
    """Return the runs of the name and user of the workload of `info`; None where there is nothing to compare."""
    workloads = {sample.labels.get("workload", "") for sample in info}
    named = _shared_labels(info[0].labels) if len(workloads) == 1 else None
    if named is None:
        return None
    (this,) = workloads
    user, selector = info[0].labels.get("user", ""), promql.matchers(**named)

    def by_workload(query: str) -> Mapping[str, float]:
        return {sample.labels.get("workload", ""): sample.value for sample in client.instant(query, now)}

    starts = by_workload(promql.newest(selector, window, _MAX_RUNS))
    scope = {"cluster": info[0].labels["cluster"]} if "cluster" in info[0].labels else {}
    those = promql.quoted("|".join(re.escape(workload) for workload in sorted({*starts, this})))
    own = ", ".join(filter(None, (promql.matchers(**scope), f"workload=~{those}")))
    if len({*starts, this}) < 2:  # noqa: PLR2004 - two are needed to compare
        return None
    of = _RunNumbers(
        starts,
        by_workload(promql.highest_of_workloads("gpu_workload_allocated_gpus", own, window)),
        by_workload(promql.of_workloads("gpu_workload_gpu_seconds_total", own, window)),
        by_workload(promql.of_workloads("gpu_workload_energy_joules_total", own, window)),
        by_workload(promql.last_of_workloads("gpu_workload_time_to_target_seconds", own, window)),
    )
    for work in WORK:
        amounts = by_workload(promql.reported(work, own, window, " by (workload)"))
        if amounts.get(this):
            found = sorted(_run_amounts(amounts, of), key=lambda run: run.start or 0.0)
            mine = next((run for run in found if run.workload == this), None)
            name = named.get("job_name") or named.get("part_of", "")
            return Runs(name, user, work, mine, tuple(found), changed_at) if mine and len(found) > 1 else None
    return None


def _shared_labels(labels: Mapping[str, str]) -> Mapping[str, str] | None:
    """Labels that runs of the same name and user share; None for what has no name of its own."""
    scope = {"cluster": labels["cluster"]} if "cluster" in labels else {}
    if labels.get("job_name"):
        return {**scope, "job_name": labels["job_name"], "user": labels.get("user", "")}
    if labels.get("part_of"):
        return {**scope, "part_of": labels["part_of"], "workload_namespace": labels.get("workload_namespace", "")}
    return None


def _run_amounts(amounts: Mapping[str, float], of: _RunNumbers) -> Sequence[Run]:
    found: list[Run] = []
    for workload, amount in amounts.items():
        hours, gpus, joules = of.seconds.get(workload, 0.0) / 3600, of.gpus.get(workload), of.joules.get(workload)
        rate = throughput(amount, 0.0, hours, joules)
        if rate.per_gpu_hour and gpus:
            target = of.targets.get(workload)
            start = of.starts.get(workload)
            found.append(Run(workload, start, gpus, hours, rate.per_gpu_hour, rate.per_kwh, joules, target))
    return found
