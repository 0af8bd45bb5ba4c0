"""What the driver's documentation leaves open, asked of the driver itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from exporter.driver.interface import GPM_SECONDS, Device, DeviceLostError, DriverError, DriverGoneError
from exporter.driver.nvml.devices import NvmlDevice
from exporter.driver.nvml.gpm import Meter, TimedLock
from tests.hardware import calls
from tests.hardware.bench import Bench, watch
from tests.hardware.figures import cadence, falls, mean, time_unit

_ROOT = Path(__file__).resolve().parents[2]
_SAMPLE_TYPES = (
    "power",
    "gpu",
    "memory",
    "encoder",
    "decoder",
    "sm_clock",
    "memory_clock",
    "module_power",
    "jpeg",
    "ofa",
)
"""By NVML's number of the type."""
_EVENT_FIELDS = (*range(74, 82), *range(251, 274))
_REASONS: Mapping[str, int] = {
    "idle": 0x1, "app_clocks": 0x2, "sw_power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10, "sw_thermal": 0x20,
    "hw_thermal": 0x40, "hw_power_brake": 0x80, "display_clock": 0x100, "board_limit": 0x200, "reliability": 0x400,
}  # fmt: skip
_FIELD_REASON: Mapping[int, str] = {
    74: "sw_power_cap", 76: "sync_boost", 77: "board_limit", 79: "reliability",
    251: "sw_thermal", 252: "hw_thermal", 253: "hw_power_brake",
    269: "sw_thermal", 270: "hw_thermal", 271: "hw_power_brake",
}  # fmt: skip
_PCIE_FIELDS, _PCIE_METRICS = (197, 198), (20, 21)
_GPM_IDS = tuple(range(1, 334))
_GPM_AT_ONCE = 30
"""R580 refuses 260 ids in one call, and the oldest driver's struct holds 98."""
_GPM_SHORTEST = 0.11
"""Seconds between two samples that the driver takes."""
_GPM_INTERVALS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_GPM_TIMES = 8
_WIDE = 1 << 32


def measure(bench: Bench) -> None:
    """Idle first, then under the loads; what could crash the driver's library comes last."""
    device = bench.device
    made = tuple(calls.used(device).values())
    bench.keep("driver", device.call("nvmlSystemGetDriverVersion"))
    bench.keep("model", device.get("nvmlDeviceGetName"))
    bench.keep("unprivileged", _unprivileged(device, made))
    _at_rest_and_loaded(bench, "idle", made)
    with bench.load("dense") as running:
        if running:
            _at_rest_and_loaded(bench, "dense", made)
    with bench.load("pcie") as running:
        bench.keep("pcie_counters", _pcie(bench))
    with bench.load("duty", 50.0) as first, bench.load("duty", 50.0) as second:
        bench.keep("utilization_window", _window(bench))
        bench.keep("process_utilization", _processes(bench, [load.pid for load in (first, second) if load]))
    with bench.load("dense"):
        bench.keep("gpm", _gpm(bench))


def _at_rest_and_loaded(bench: Bench, state: str, made: Sequence[calls.Call]) -> None:
    device = bench.device
    bench.keep(f"costs_{state}", calls.costs(device, made, bench.scale))
    bench.keep(f"samples_{state}", [_samples(bench, number) for number in range(len(_SAMPLE_TYPES))])
    bench.keep(f"clock_events_{state}", _clock_events(bench))


def _unprivileged(device: Device, made: Sequence[calls.Call]) -> dict[str, Any]:
    """Root's outcomes beside an ordinary user's, where they differ."""
    root = {calls.label(call): calls.outcome(device, call) for call in made}
    if os.geteuid() != 0:
        return {"asked": "only as the user that runs this, who is not root", "outcomes": root}
    command = [sys.executable, "-m", "tests.hardware.unprivileged", str(device.index)]
    done = subprocess.run(command, input=json.dumps(made), capture_output=True, text=True, check=False, cwd=_ROOT)
    if done.returncode:
        return {"asked": f"failed: {done.stderr.strip()[-500:]}", "outcomes": root}
    found = json.loads(done.stdout)
    differing = {name: [root.get(name), told] for name, told in found.items() if root.get(name) != told}
    return {"asked": "as root and as nobody", "outcomes": root, "root_and_nobody_differ": differing}


def _samples(bench: Bench, number: int) -> dict[str, Any]:
    """What a buffer holds, and how many of its samples are new two seconds later."""
    device, name = bench.device, _SAMPLE_TYPES[number]
    try:
        held = device.call("nvmlDeviceGetSamples", number, 0)
        now = time.time()
        bench.rest(2.0)
        newer = device.call("nvmlDeviceGetSamples", number, held[-1][0] if held else 0)
    except DriverError as error:
        return {"type": name, "outcome": error.code}
    values = [value for _, value in held]
    spread = {"lowest": min(values, default=None), "highest": max(values, default=None)}
    return {"type": name, "outcome": "ok", **asdict(cadence([stamp for stamp, _ in held], now)), **spread,
            "new_after_2s": len(newer)}  # fmt: skip


def _clock_events(bench: Bench) -> dict[str, Any]:
    """Which counters of held-down clocks advance, in what unit by the time their reason was in force."""
    device = bench.device
    fields = tuple((field, 0) for field in _EVENT_FIELDS)

    def read() -> dict[str, float | None]:
        flags = int(device.get("nvmlDeviceGetCurrentClocksEventReasons") or 0)
        answered = device.get("nvmlDeviceGetFieldValues", fields) or (None,) * len(fields)
        held = {reason: float(bool(flags & bit)) for reason, bit in _REASONS.items()}
        return held | {str(field): value for (field, _), value in zip(fields, answered, strict=True)}

    with watch(read, 0.05) as found:
        bench.rest(10.0)
    rows = []
    for field in _EVENT_FIELDS:
        history = found.get(str(field), [])
        if len(history) < 2:
            rows.append({"field": field, "answered": bool(history)})
            continue
        begin, end = history[0][0], history[-1][0]
        growth = history[-1][1] - history[0][1]
        reason = _FIELD_REASON.get(field)
        share = mean(found[reason], begin, end) if reason else None
        rows.append({"field": field, "answered": True, "last": history[-1][1], "growth": growth,
                     "seconds": end - begin, "reason": reason, "reason_in_force": share,
                     "unit": time_unit(growth, (1.0 if share is None else share) * (end - begin))})  # fmt: skip
    held = {name: sum(value for _, value in found[name]) / len(found[name]) for name in _REASONS if found.get(name)}
    return {"reasons_in_force": held, "fields": rows}


def _pcie(bench: Bench) -> list[dict[str, Any]]:
    """Counters of 32 bits go back several times under full traffic; those of 64 do not.

    `per_second` adds them up across the wraps, to compare with GPM's rate at the same time.
    """
    device = bench.device

    def read() -> dict[str, float | None]:
        answered = device.get("nvmlDeviceGetFieldValues", tuple((field, 0) for field in _PCIE_FIELDS))
        return dict(zip(map(str, _PCIE_FIELDS), answered or (None, None), strict=True))

    device.get("nvmlGpmMetricsGet", _PCIE_METRICS)
    with watch(read, 0.02) as found:
        bench.rest(8.0)
    moved = device.get("nvmlGpmMetricsGet", _PCIE_METRICS) or {}
    rows = []
    for field, metric in zip(_PCIE_FIELDS, _PCIE_METRICS, strict=True):
        history = found.get(str(field), [])
        values = [value for _, value in history]
        rows.append({"field": field, "width": _width(values), "falls": falls(values),
                     "first": values[0] if values else None, "last": values[-1] if values else None,
                     "highest": max(values, default=None), "per_second": _counted(history),
                     "gpm_per_second": _bytes(moved.get(metric))})  # fmt: skip
    return rows


def _bytes(mebibytes: float | None) -> float | None:
    return None if mebibytes is None else mebibytes * 1024 * 1024


def _width(values: Sequence[float]) -> str:
    if not values:
        return "not answered"
    if max(values) >= _WIDE:
        return "over 32 bits"
    return "32 bits" if falls(values) else "not told from 32 bits"


def _counted(history: Sequence[tuple[float, float]]) -> float | None:
    """Bytes per second by a counter of which no wrap was missed."""
    if len(history) < 2:
        return None
    gained = sum((new - old) % _WIDE for (_, old), (_, new) in pairwise(history))
    return gained / (history[-1][0] - history[0][0])


def _window(bench: Bench) -> dict[str, Any]:
    """How often the utilization reading changes under a duty cycle."""
    device = bench.device

    def read() -> dict[str, float | None]:
        rates = device.get("nvmlDeviceGetUtilizationRates")
        return {"gpu": None if rates is None else float(rates.gpu)}

    with watch(read, 0.005) as found:
        bench.rest(6.0)
    history = found.get("gpu", [])
    changes = [int(now * 1e6) for (_, old), (now, new) in pairwise(history) if old != new]
    return {"reads": len(history), "changes": asdict(cadence(changes, time.time()))}


def _processes(bench: Bench, pids: Sequence[int]) -> dict[str, Any]:
    """Samples of two processes that each use the GPU half of the time: as the driver gives them, by pid."""
    device = bench.device
    cursor, polls, answered = 0, 0, 0
    by_pid: dict[int, list[Any]] = {}
    until = time.monotonic() + bench.seconds(8.0)
    while time.monotonic() < until:
        polls += 1
        samples = device.get("nvmlDeviceGetProcessUtilization", cursor) or ()
        answered += bool(samples)
        for sample in samples:
            by_pid.setdefault(sample.pid, []).append(sample)
        cursor = max((cursor, *(sample.timeStamp for sample in samples)))
        time.sleep(0.1)
    rows = [
        {"pid_is_a_load": pid in pids, "sm_mean": sum(sample.smUtil for sample in found) / len(found),
         "sm_highest": max(sample.smUtil for sample in found),
         **asdict(cadence([sample.timeStamp for sample in found], time.time()))}
        for pid, found in by_pid.items()
    ]  # fmt: skip
    return {"loads": len(pids), "polls": polls, "polls_with_samples": answered, "processes": rows}


def _gpm(bench: Bench) -> dict[str, Any]:
    """Which metrics answer, and what SM and tensor activity come to at ever shorter intervals."""
    device = bench.device
    if not isinstance(device, NvmlDevice):
        return {"outcome": "no NVML device"}
    # A meter of our own whose clock runs fast, so that it does not refuse a short interval as the exporter's does.
    meter = Meter(device.target.library, TimedLock(5.0), device.target.handle, clock=lambda: time.monotonic() * 1000)
    try:
        answering, refused = _gpm_metrics(meter)
        bench.keep("gpm_metrics", answering)
        bench.keep("gpm_refused", refused)
        rows = []
        for interval in reversed(_GPM_INTERVALS):
            rows.append(_gpm_interval(meter, interval, max(2, round(_GPM_TIMES * bench.scale))))
            bench.keep("gpm_intervals", rows)
    except DriverError as error:
        return {"outcome": error.code}
    finally:
        meter.free()
    return {"outcome": "ok"}


def _gpm_metrics(meter: Meter) -> tuple[list[int], list[int]]:
    """Return the metrics that answer, and those for which the driver refuses the whole call."""
    answering: list[int] = []
    refused: list[int] = []
    for first in range(0, len(_GPM_IDS), _GPM_AT_ONCE):
        part = _GPM_IDS[first : first + _GPM_AT_ONCE]
        found = _gpm_asked(meter, part)
        if found is not None:
            answering += sorted(found)
            continue
        for metric in part:
            alone = _gpm_asked(meter, (metric,))
            answering += sorted(alone or ())
            refused += [metric] if alone is None else []
    return answering, refused


def _gpm_asked(meter: Meter, metrics: Sequence[int]) -> set[int] | None:
    """Return which of the metrics have a number; None where the driver refuses to be asked.

    The first read after a refusal begins a new window and has nothing.
    """
    found: Mapping[int, float] = {}
    try:
        while not found:
            time.sleep(_GPM_SHORTEST)
            found = meter.read(metrics)
    except (DeviceLostError, DriverGoneError):
        raise
    except DriverError:
        return None
    return set(found) - {GPM_SECONDS}


def _gpm_interval(meter: Meter, interval: float, times: int) -> dict[str, Any]:
    sm: list[float] = []
    tensor: list[float] = []
    meter.read((2, 5))
    for _ in range(times):
        time.sleep(interval)
        found = meter.read((2, 5))
        sm += [found[2]] if 2 in found else []
        tensor += [found[5]] if 5 in found else []
    return {"interval": interval, "asked": times, "sm_answers": len(sm),
            "sm_lowest": min(sm, default=None), "sm_highest": max(sm, default=None),
            "tensor_lowest": min(tensor, default=None), "tensor_highest": max(tensor, default=None)}  # fmt: skip
