"""Whatever files do, cycles go on and GPUs are told: only what a file would have said is missing."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.exporter_process import FAST, exporter
from tests.fake_nvml.scenario import GIB
from tests.stack import poll

CYCLES = 80
OF_PROCESSES = re.compile(r"(gpu_workload|process)_\w+ .* -> None", re.DOTALL)
"""What `/proc` and cgroups tell of a program: absent while they do not."""


@pytest.mark.parametrize("share", ["0.3", "1"])
def test_no_file_that_fails_ends_a_cycle(share: str, fake_nvml: Callable[..., Any], tmp_path: Path) -> None:
    fake = fake_nvml()
    fake.scenario.set({"gpu0.process.0": f"{os.getpid()} C {4 * GIB} 10 5 0 0"})
    for name in ("state", "progress", "jobs"):
        (tmp_path / name).mkdir()
    options = (
        *("--state.dir", str(tmp_path / "state"), "--maintenance.file", str(tmp_path / "maintenance")),
        *("--progress.dir", str(tmp_path / "progress"), "--attribution.slurm.mapping-dir", str(tmp_path / "jobs")),
        *("--attribution.slurm", "on", "--attribution.containers", "on"),
    )
    command = (sys.executable, "-m", "tests.failing_files", share)
    with exporter(tmp_path, *FAST, *options, environment=fake.environment, command=command) as running:
        begun = running.metrics()
        last = poll(
            f"{CYCLES} cycles",
            lambda: found if (found := running.metrics()).one("gpu_exporter_sampling_cycles_total") > CYCLES else None,
            60,
        )

        assert set(last.all("gpu_up")) == {1.0}
        assert [each for each in last.went_back(begun) if not OF_PROCESSES.fullmatch(each)] == []
        assert last.one("gpu_exporter_thread_up", thread="sampler") == 1.0
        assert running.terminate(within=10) == 0
    log = running.log.read_text()
    assert "Traceback" not in log, log
