"""What NVML and GPM report of a rank that waits in a collective, beside the same rank at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.ledger.states import STATES
from tests.exporter_process import Metrics, exporter
from tests.hardware.bench import Bench
from tests.hardware.figures import rate
from tests.hardware.loads import Running

_OPTIONS = ("--metrics.hide=", "--attribution.kubernetes=off", "--attribution.slurm=off")
_WAITS = ((0, 1), (25, 1), (50, 1), (75, 1), (100, 1), (50, 16), (100, 16))
"""Percent of each second in the collective, and NCCL's channels: each is a block of the kernel that waits."""
_RATES: Mapping[str, str] = {
    "busy": "gpu_busy_seconds_total", "memory_busy": "gpu_memory_busy_seconds_total",
    "sm": "gpu_sm_active_seconds_total", "occupancy": "gpu_sm_occupancy_seconds_total",
    "tensor": "gpu_tensor_active_seconds_total", "fp32": "gpu_fp32_active_seconds_total",
    "fp16": "gpu_fp16_active_seconds_total", "integer": "gpu_integer_active_seconds_total",
    "dram": "gpu_dram_active_seconds_total", "watts": "gpu_energy_joules_total",
}  # fmt: skip
_TIMEOUT_SECONDS = 5.0


def measure(bench: Bench) -> None:
    """Rates of each counter by how long the rank waits, and the ledger's states, in `waits`."""
    rows: list[dict[str, Any]] = []
    with exporter(bench.folder, *_OPTIONS) as running:
        for percent, channels in _WAITS:
            with bench.load("collective", percent, channels) as load:
                if load is None:
                    continue
                bench.rest(3.0)
                before = running.metrics(_TIMEOUT_SECONDS)
                bench.rest(20.0)
                after = running.metrics(_TIMEOUT_SECONDS)
                found = {**_truth(load), **_grown(bench, before, after)}
                rows.append({"wait_percent": percent, "channels": channels, **found})
                bench.keep("waits", rows)


def _truth(load: Running) -> dict[str, float | None]:
    """Fractions of the time by CUDA events, over the second half of the load's history."""
    found: dict[str, float | None] = {}
    for name in ("kernel_seconds", "waited_seconds"):
        history = load.history(name)
        found[name] = rate(history, history[len(history) // 2][0], history[-1][0])
    return found


def _grown(bench: Bench, before: Metrics, after: Metrics) -> dict[str, Any]:
    """Growth of each counter by the seconds of the ledger, which sum to the time."""
    uuid = bench.device.uuid

    def growth(name: str, **labels: str) -> float | None:
        first, last = before.one(name, uuid=uuid, **labels), after.one(name, uuid=uuid, **labels)
        return None if first is None or last is None else last - first

    states = {state: growth("gpu_state_seconds_total", state=state) or 0.0 for state in STATES}
    seconds = sum(states.values())
    rates = {name: None if (grown := growth(of)) is None else grown / seconds for name, of in _RATES.items()}
    shares = {state: round(spent / seconds, 3) for state, spent in states.items() if spent}
    return {**rates, "states": shares, "seconds": seconds}
