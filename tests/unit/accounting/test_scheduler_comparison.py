"""The daily comparison with the scheduler: which jobs it takes, and what it logs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.config.load import load
from exporter.tools.report.accounting import command


def compared(folder: Path, body: str) -> None:
    """Run one round in which `sacct` is this script, and no node answers."""
    sacct = folder / "sacct"
    sacct.write_text(f"#!/bin/sh\n{body}\n")
    sacct.chmod(0o755)
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(folder))
    command.run(load(command.AccountingConfig, (*options, "--slurm.sacct", str(sacct)), {}))


@pytest.mark.parametrize(("age", "times"), [(3300, 0), (3900, 1), (86400 + 3300, 1), (86400 + 3900, 0)])
def test_job_is_compared_in_the_day_that_begins_an_hour_after_its_end(
    age: int, times: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end = int(time.time()) - age
    job = f"7|7|ada|vision|gpu|q|c1|COMPLETED|0:0|{end - 5400}|{end}|5400|600|1|8|01:00:00||gres/gpu=2|"
    compared(tmp_path, f"echo '{job}'")

    logged = capsys.readouterr().err
    assert logged.count('msg="job 7: 3.00 GPU hours by the scheduler, 0.00 by the nodes"') == times


def test_scheduler_that_does_not_answer_is_named_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compared(tmp_path, "echo slurmdbd is down >&2; exit 1")

    logged = capsys.readouterr().err
    assert f'msg="not compared with the scheduler: {tmp_path}/sacct -n: slurmdbd is down"' in logged
    assert 'msg="http://127.0.0.1:1 is not read: HTTPConnectionPool(' in logged
