"""What the report advises beside the ledger's own words, by what was free and what was copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.tools.report.advice import of_job
from exporter.tools.report.model import DeviceUse, NodeUse

GIB = 2.0**30
DEVICE = DeviceUse("n1", "0", "GPU-0", "H200", 1.0, {}, 40 * GIB, 140 * GIB, 300.0, 0.4, 1e9)
NODE = NodeUse("n1", 1.0, {"wait_cpu": 4.0, "computing": 6.0}, None, 4 * 36000.0, 16.0, 20 * GIB, 128 * GIB)
WAITS = {"wait_cpu": 4.0, "computing": 6.0}


def advised(hours: dict[str, float], device: DeviceUse = DEVICE, node: NodeUse = NODE) -> dict[str, str]:
    return {each.state: each.text for each in of_job(hours, [device], [node])}


def test_input_bound_job_beside_idle_cpus_hears_how_many_and_how_much_memory() -> None:
    """4 of 16 CPUs were used over 10 hours, and 20 of 128 GiB."""
    assert advised(WAITS)["more_loaders"].startswith("12 CPUs and 108.0 GiB of host memory")


def test_idle_cpus_are_counted_by_the_hour() -> None:
    """13.5 of 16 were used: 2.5 are rounded to the even number."""
    assert advised(WAITS, node=replace(NODE, cpu_seconds=13.5 * 36000))["more_loaders"].startswith("2 CPUs and ")


@pytest.mark.parametrize(
    "node",
    [
        replace(NODE, cpu_seconds=15.8 * 36000),
        replace(NODE, cpu_limit_cores=None),
        replace(NODE, cpu_seconds=None),
    ],
)  # fmt: skip
def test_no_workers_are_advised_where_no_cpu_is_known_to_be_idle(node: NodeUse) -> None:
    assert "more_loaders" not in advised(WAITS, node=node)


def test_job_that_computes_needs_no_workers_and_no_profile() -> None:
    assert advised({"computing": 10.0}) == {}


def test_much_that_is_copied_beside_a_full_cpu_should_be_pinned() -> None:
    """4 GB a second over 10 hours."""
    assert "unpinned" not in advised(WAITS)
    assert "pin_memory=True" in advised(WAITS, replace(DEVICE, copied_bytes=4e9 * 36000))["unpinned"]
    assert "unpinned" not in advised({"wait_storage": 4.0, "computing": 6.0}, replace(DEVICE, copied_bytes=4e9 * 36000))


def test_batch_advice_says_how_much_gpu_memory_is_free() -> None:
    assert "100.0 GiB were free" in advised({"low_sm_activity": 10.0})["low_sm_activity"]


def test_gpu_before_hopper_is_asked_about_its_precision() -> None:
    assert "bf16" in advised({"computing": 10.0}, replace(DEVICE, sm_active=None))["mixed_precision"]


@pytest.mark.parametrize("state", ["low_sm_activity", "wait_other", "wait_collective"])
def test_commands_of_profilers_are_complete(state: str) -> None:
    assert "nsys profile --trace=cuda,nvtx,osrt --delay=60 --duration=30" in advised({state: 10.0})["profile"]
