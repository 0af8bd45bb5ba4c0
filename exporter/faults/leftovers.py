"""What a job that has ended may leave on its GPUs, and what links have counted."""

from __future__ import annotations

from collections.abc import Iterable

from exporter.attribution.devices import DeviceName
from exporter.faults.facts import Facts, Series
from exporter.faults.rule import Cause, Limits

_GIB = 2**30
_LEAKED = 1 * _GIB
"""Bytes that no process accounts for; the same as the alert's."""
_BRIEF = 3
"""Processes that are named."""
_MEMORY = "gpu_process_memory_bytes"
_OF_PROCESSES = (_MEMORY, "gpu_process_utilization_ratio", "gpu_process_start_time_seconds")
"""What shows that a process is there: the driver does not always know its memory, nor the host the process."""
_REPEATED = ("replay", "recovery", "link_recovery")


def _looked_at(facts: Facts, limits: Limits) -> frozenset[str] | None:
    """Indices of the GPUs that must be empty; None: all."""
    if limits.emptied is None:
        return None
    shown = (series for family in _OF_PROCESSES for series in facts.of(family))
    shared = {series.gpu for series in shown if series.labels.get("slurm_job", "") not in ("", limits.job)}
    split = any(True for _ in facts.of("gpu_mig_info"))  # Slurm counts instances then, in an order of its own
    wanted = {name for name in limits.emptied if name.driver_index is None or not split}
    return frozenset(
        series.gpu for series in facts.of("gpu_info") if series.gpu not in shared and wanted & _names(series)
    )


def _names(series: Series) -> frozenset[DeviceName]:
    found = {DeviceName(uuid=series.labels.get("uuid", ""))}
    minor = series.labels.get("minor_number") or series.gpu
    found |= {DeviceName(minor=int(minor))} if minor.isdecimal() else set()
    found |= {DeviceName(driver_index=int(series.gpu))} if series.gpu.isdecimal() else set()
    return frozenset(found)


def leftover(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Processes on GPUs that should be empty. Services of the site may stay."""
    wanted, by_gpu = _looked_at(facts, limits), dict[str, dict[str, tuple[str, float | None]]]()
    for family in _OF_PROCESSES:
        for series in facts.of(family):
            command = series.labels.get("command", "")
            if (wanted is None or series.gpu in wanted) and not (command and command.startswith(limits.allowed)):
                held = series.value if family == _MEMORY else None
                by_gpu.setdefault(series.gpu, {}).setdefault(series.labels["pid"], (command, held))
    for gpu, processes in by_gpu.items():
        ranked = sorted(processes.items(), key=lambda each: -(each[1][1] or 0.0))
        named = ", ".join(f"{pid} ({command})" if command else pid for pid, (command, _) in ranked[:_BRIEF])
        more = f" and {len(ranked) - _BRIEF} more" if len(ranked) > _BRIEF else ""
        known = [held for _, held in processes.values() if held is not None]
        size = f"{sum(known) / _GIB:.1f}" if known else "an unknown number of"
        yield gpu, {"processes": named + more, "size": size, "count": len(ranked)}


def leaked(facts: Facts, limits: Limits) -> Iterable[Cause]:
    wanted = _looked_at(facts, limits)
    for series in facts.of("gpu_memory_unattributed_bytes"):
        if series.value > _LEAKED and (wanted is None or series.gpu in wanted):
            yield series.gpu, {"size": f"{series.value / _GIB:.1f}"}


def nvlink_errors(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """Transfers that had to be repeated and links that had to be trained again, since the driver was loaded."""
    counts: dict[tuple[str, str], float] = {}
    for series in facts.of("gpu_nvlink_errors_total"):
        if series.labels.get("type") in _REPEATED:
            key = series.gpu, series.labels.get("uuid", "")
            counts[key] = counts.get(key, 0.0) + series.value
    for (gpu, uuid), count in counts.items():
        if count > limits.link_errors:
            yield gpu, {"uuid": uuid, "count": f"{count:g}"}
