"""Slurm's HealthCheckProgram: asks the check with the site's settings, and gives up before Slurm does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

HOOK = Path(__file__).resolve().parents[3] / "deploy/slurm/healthcheck"


def run(folder: Path, program: str, settings: str | None = None) -> subprocess.CompletedProcess[str]:
    """The hook with this in place of the exporter, and of `timeout` one that says for how long."""
    for name, body in (("exporter", program), ("timeout", 'echo "timeout $1 $2 $3"; shift 3; exec "$@"')):
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    file = folder / "settings"
    if settings is not None:
        file.write_text(settings)
    environment = {"GPU_EXPORTER": str(folder / "exporter"), "GPU_EXPORTER_CHECK_SETTINGS": str(file)}
    environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    return subprocess.run([HOOK], env=environment, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize("settings", [None, ""])
def test_node_is_kept_in_step_within_slurms_minute(tmp_path: Path, settings: str | None) -> None:
    done = run(tmp_path, 'echo "$@"', settings)

    assert done.stdout.splitlines() == ["timeout -k 5 50", "check --drain --format nagios"]


def test_sites_settings_reach_the_check(tmp_path: Path) -> None:
    done = run(tmp_path, 'sh -c "echo $GPU_EXPORTER_EXPECT_GPUS"', "GPU_EXPORTER_EXPECT_GPUS=8\n")

    assert done.stdout.splitlines()[1:] == ["8"]


@pytest.mark.parametrize("status", [0, 1, 2, 3])
def test_status_is_the_verdicts(tmp_path: Path, status: int) -> None:
    assert run(tmp_path, f"exit {status}").returncode == status
