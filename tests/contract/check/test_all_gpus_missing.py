"""`gpu-exporter check` on a node that lost all of its GPUs: failed if any source expects GPUs, ok if none does."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.faults import state_file
from exporter.faults.model import FaultState, GpuRecord
from exporter.faults.watch import NAME
from tests.contract.check.node import CheckedNode, FakeNvml


@pytest.fixture
def node(tmp_path: Path, fake_nvml: FakeNvml) -> CheckedNode:
    """A node without GPUs on the PCI bus and without the driver's module."""
    return CheckedNode(tmp_path, fake_nvml({"driver_gone": 1}).environment)


def test_check_with_four_gpus_in_history_and_none_found_fails(node: CheckedNode) -> None:
    state_file.write_state(
        node.state / NAME, FaultState(devices={f"GPU-{index}": GpuRecord(index) for index in range(4)})
    )

    direct, by_url = node.check_both()

    assert (direct.status, by_url.status) == (2, 2)
    reasons = [(finding["rule"], finding["reason"]) for finding in node.findings()]
    assert reasons == [("gpu_missing", "the driver shows 0 of 4 GPUs that were here before")]


def test_check_with_four_gpus_by_option_and_none_found_fails(node: CheckedNode) -> None:
    reasons = [finding["reason"] for finding in node.findings("--expect.gpus=4")]

    assert node.check("--expect.gpus=4").status == 2
    assert reasons == ["the driver shows 0 of 4 GPUs expected"]


def test_check_of_node_that_never_had_gpus_is_ok(node: CheckedNode) -> None:
    direct, by_url = node.check_both()

    assert direct == by_url == (0, "ok: no NVIDIA GPU in this node")
