"""`gpu-exporter check` after a fault was cleared: its XID in the kernel log no longer counts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.check.node import CheckedNode, FakeNvml
from tests.exporter_process import ROOT, exporter
from tests.stack import poll

XID_119 = (
    "NVRM: Xid (PCI:0000:1a:00): 119, pid=77, name=python3, Timeout after 6s of waiting for RPC response from GSP!"
)
GPU = {"memory_used": 0, "utilization": 0}
HOURS_OF_ENERGY_MJ, SECONDS_OF_ENERGY_MJ = 900_000_000, 90_000


def log_xid(node: CheckedNode) -> None:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    with (node.folder / "kmsg").open("a") as log:
        log.write(f"4,1000,{int(now * 1e6)},-;{XID_119}\n")


def acknowledge(node: CheckedNode, _: Any) -> None:
    command = (
        sys.executable,
        "-m",
        "exporter",
        "acknowledge",
        "--gpu=0",
        "--reason=reset",
        f"--state.dir={node.state}",
    )
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)


def reset(_: CheckedNode, fake: Any) -> None:
    """Restart the energy counter, as a reset does."""
    fake.scenario.set({"gpu0.energy_mj": SECONDS_OF_ENERGY_MJ})


@pytest.mark.parametrize("clear", [acknowledge, reset])
def test_check_after_fault_was_cleared_is_ok(
    clear: Callable[[CheckedNode, Any], None], tmp_path: Path, fake_nvml: FakeNvml
) -> None:
    fake = fake_nvml({**GPU, "gpu0.energy_mj": HOURS_OF_ENERGY_MJ})
    node = CheckedNode(tmp_path, fake.environment)
    with exporter(tmp_path, *node.paths, environment={**os.environ, **fake.environment}) as running:
        running.until("the history", "gpu_expected_devices", 2.0, source="history")
        log_xid(node)
        poll("the fault", lambda: running.metrics().all("gpu_fault_timestamp_seconds") or None, 60)
        failed = node.check_url(running.url), node.check()

        clear(node, fake)
        running.until("the end of the fault", "gpu_fault_timestamp_seconds", None)
        by_url = [node.check_url(running.url, f"--format={name}") for name in ("text", "nagios")]
        direct = node.check()

    assert [outcome.status for outcome in failed] == [2, 2]
    assert [outcome.status for outcome in (*by_url, direct)] == [0, 0, 0]
    assert by_url[1].headline.startswith("GPU OK - 2 GPUs reachable")
