"""The measurements for real hardware run to their end on the fake driver, and say that nothing was loaded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.tools.capture.replay import CaptureDriver
from tests.fake_nvml.build import build
from tests.fake_nvml.scenario import Scenario, node, uuid
from tests.hardware.keep import keep
from tests.hardware.run import PARTS
from tests.stack import ROOT

pytestmark = pytest.mark.deep

DENIED = "nvmlDeviceGetUtilizationRates"


def run(folder: Path, scenario: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.hardware.run", str(folder), "--load", "none", *options]
    environment = {**os.environ, "LD_LIBRARY_PATH": str(build()), "FAKE_NVML_SCENARIO": str(scenario)}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def results() -> Iterator[Path]:
    """The folder of a measurement. It is where any user may read, since a part of it becomes another user."""
    folder = Path(tempfile.mkdtemp(prefix="gpu-exporter-test-"))
    folder.chmod(0o755)
    # Without power: so short a measurement on a busy machine says nothing about energy.
    values = {key: value for key, value in node(1).items() if key not in {"gpu.power_mw", "gpu.field.186"}}
    Scenario(folder / "scenario", {**values, "epoch": time.time() - 7200, "gpu.utilization": 0})
    try:
        done = run(folder, folder / "scenario", "--scale", "0.02")
        (folder / "status").write_text(f"{done.returncode}\n{done.stderr}")
        yield folder
    finally:
        shutil.rmtree(folder)


def part(results: Path, name: str) -> Any:
    return json.loads((results / f"{name}.json").read_text())


def test_every_part_ends_whole(results: Path) -> None:
    status = (results / "status").read_text()

    assert status.splitlines()[0] == "0", status + (results / "log.txt").read_text()
    assert {path.stem for path in results.glob("*.json")} == set(PARTS)


def test_report_says_that_no_load_ran(results: Path) -> None:
    report = (results / "report.md").read_text()

    assert "**No load ran (`--load none`).**" in report
    assert all(part(results, name)["loads"] == "none" for name in PARTS)
    assert {row["outcome"] for row in part(results, "comparisons")["verdicts"]} == {"not measured"}
    missing = {row["program"] for row in part(results, "diagnosis")["programs"] if row["outcome"] == "not measured"}
    assert missing == {"dense", "copy", "tiny", "input", "held", "pcie"}


def test_what_needs_no_load_is_measured(results: Path) -> None:
    answers = part(results, "answers")

    costs = {row["call"]: row for row in answers["costs_idle"]}
    assert costs[DENIED]["outcome"] == "ok"
    assert 0 < costs[DENIED]["minimum"] <= costs[DENIED]["median"] <= costs[DENIED]["p99"]
    gpu, clock = answers["samples_idle"][1], answers["samples_idle"][5]
    assert (gpu["type"], gpu["samples"], clock["lowest"]) == ("gpu", 100, 1980)
    assert gpu["period_median"] == pytest.approx(1 / 6, abs=0.001)
    assert [row["width"] for row in answers["pcie_counters"]] == ["over 32 bits", "over 32 bits"]
    assert 10 in answers["gpm_metrics"]
    assert answers["unprivileged"]["outcomes"][DENIED] == "ok"
    assert part(results, "cost")["cpu_percent"] is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_calls_are_made_as_another_user_too(results: Path) -> None:
    asked = part(results, "answers")["unprivileged"]

    assert (asked["asked"], asked["root_and_nobody_differ"]) == ("as root and as nobody", {})


def test_capture_is_masked_and_becomes_a_test(results: Path, tmp_path: Path) -> None:
    captured = part(results, "captures")
    text = json.dumps(captured)
    driver = CaptureDriver(captured["idle"])
    driver.open()

    (written,) = keep(results / "captures.json", tmp_path, "lab")

    assert uuid(0) not in text
    assert "1562821083900" not in text
    assert driver.devices()[0].call("nvmlDeviceGetName") == "NVIDIA H100 80GB HBM3"
    assert written.name == "lab__H100-80GB-HBM3__580.95.05__idle.json"
    assert json.loads(written.read_text()) == captured["idle"]


def test_part_out_of_time_is_cut_off_and_said_so(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario"
    Scenario(scenario, {**node(1), "call.nvmlDeviceGetIndex": "SLEEP 60"})

    done = run(tmp_path / "out", scenario, "--parts", "answers,captures", "--within", "4")

    report = (tmp_path / "out/report.md").read_text()
    assert done.returncode == 1
    assert "| answers | cut off: out of time |" in report
    assert "| captures | not begun: out of time |" in report
