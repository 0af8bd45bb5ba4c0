"""Five runs of one name for the report's test: the last one still runs, and reports when it will be done."""

from __future__ import annotations

from collections.abc import Mapping

from tests.e2e.backfill import Past
from tests.e2e.report_past import OWNER, SCRAPE

LASTED, GPUS, WATTS, PEAK, LEFT = 1200.0, 4, 300.0, 1e15, 3600.0
"""Seconds of each run; GPUs on each of two nodes, watts and operations a second of each; seconds to the end."""
SAMPLES = {"5001": 100.0, "5002": 110.0, "5003": 90.0, "5004": 150.0, "5005": 160.0}
"""A second and node, oldest run first."""
TARGETS = {"5001": 600.0, "5002": 550.0, "5003": 700.0, "5004": 400.0}
"""Seconds until each reached its target quality."""


def runs(past: Past, now: float) -> dict[str, float]:
    """When each began."""
    first = now - len(SAMPLES) * LASTED
    starts = {run: first + number * LASTED for number, run in enumerate(SAMPLES)}
    for run, began in starts.items():
        for node in ("n5", "n6"):
            _node(past, run, began, {"instance": f"{node}:9836", "job": "gpu", "cluster": "c1"})
    return starts


def _node(past: Past, run: str, began: float, here: Mapping[str, str]) -> None:
    owner = {**OWNER, "workload": f"slurm:{run}", "slurm_job": run, "user": "carol", **here}
    seconds = [float(second) for second in range(0, int(LASTED) + 1, SCRAPE)]
    times = [began + second for second in seconds]

    def add(family: str, labels: Mapping[str, str], rate: float) -> None:
        past.add(family, labels, [(began + second, rate * second) for second in seconds])

    def level(family: str, labels: Mapping[str, str], value: float) -> None:
        past.add(family, labels, [(time, value) for time in times])

    add("gpu_workload_gpu_seconds_total", {**owner, "state": "computing"}, GPUS)
    add("gpu_workload_energy_joules_total", owner, GPUS * WATTS)
    add("gpu_workload_samples_total", owner, SAMPLES[run])
    add("gpu_workload_steps_total", owner, 1.0)
    add("gpu_workload_model_flops_total", owner, 0.4 * GPUS * PEAK)
    level("gpu_workload_allocated_gpus", owner, float(GPUS))
    level("gpu_workload_info", {**owner, "job_name": "bert"}, 1.0)
    level("gpu_workload_start_time_seconds", owner, began)
    if run in TARGETS:
        level("gpu_workload_time_to_target_seconds", owner, TARGETS[run])
    else:
        level("gpu_workload_progress_ratio", owner, 0.25)
        level("gpu_workload_expected_seconds_remaining", owner, LEFT)
    for gpu in range(GPUS):
        device = {**here, "gpu": str(gpu), "uuid": f"GPU-{here['instance']}-{gpu}"}
        level("gpu_allocation_ratio", {**owner, **device}, 1.0)
        level("gpu_info", {**device, "model": "NVIDIA H100 80GB HBM3"}, 1.0)
        level("gpu_peak_bf16_flops", device, PEAK)
