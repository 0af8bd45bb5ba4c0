"""A job without GPUs: the report states what slurmdbd has of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Done, run
from tests.unit.report.test_failures import EMPTY, EMPTY_MATRIX, api, say

LINE = "7|7|alice|physics|cpu|normal|e2e|COMPLETED|0:0|1000|4600|3600|120|1|16|08:00:00||cpu=16{gpus},mem=64G,node=1|"
BATCH = "7.batch|7.batch|||||e2e|COMPLETED|0:0|1000|4600|3600||1|16|08:00:00|9G||"


def _report(folder: Path, form: str, gpus: str = "", *, metrics: bool = True) -> Done:
    sacct = folder / "sacct"
    sacct.write_text(f"#!/bin/sh\necho '{LINE.format(gpus=gpus)}\n{BATCH}'\n")
    sacct.chmod(0o755)

    def answer(handler: object) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0))).decode()  # type: ignore[attr-defined]
        asks_for_metrics = metrics and "gpu_exporter_build_info" in body and "count" in body
        known = EMPTY.replace("[]", '[{"metric": {}, "value": [1, "1"]}]') if asks_for_metrics else EMPTY
        say(handler, 200, EMPTY_MATRIX if "query_range" in handler.path else known)  # type: ignore[arg-type,attr-defined]

    with api(answer) as url:
        return run("report", "7", "--prometheus.url", url, "--slurm.sacct", str(sacct), "--format", form)


def test_job_without_gpus_is_reported_from_accounting(tmp_path: Path) -> None:
    done = _report(tmp_path, "text")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "Slurm job 7 of alice: no GPU"
    assert "16, 50 % used" in done.stdout
    assert "64.0 GiB, 9.0 GiB used at most by a process" in done.stdout


@pytest.mark.parametrize("form", ["markdown", "html", "short", "json"])
def test_every_format_has_it(tmp_path: Path, form: str) -> None:
    done = _report(tmp_path, form)

    assert done.returncode == 0
    if form == "json":
        assert json.loads(done.stdout)["slurm"]["cpu_seconds"] == 28800
    else:
        assert "50 % used" in done.stdout


def test_prometheus_without_the_exporter_knows_no_less_of_it(tmp_path: Path) -> None:
    done = _report(tmp_path, "text", metrics=False)

    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Slurm job 7 of alice: no GPU")
    assert _report(tmp_path, "text", ",gres/gpu=2", metrics=False).returncode == 8


def test_job_with_gpus_that_was_not_seen_has_no_report(tmp_path: Path) -> None:
    assert _report(tmp_path, "text", ",gres/gpu=2").returncode == 3
