"""Monthly mails to users and coordinators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.attribution_kit.slurm_cluster import KIT

ROW = {"rank": 2, "gpu_hours": 120.0, "used_hours": 90.0, "wasted_hours": 12.0, "gpu_hours_before": 100.0, "cost": 0.0}
ROWS = {
    "rows": [
        {**ROW, "name": "alice", "cost": 240.0, "wasted_cost": 24.5},
        {**ROW, "name": "bob", "rank": 1, "gpu_hours_before": 0},
        {**ROW, "name": ""},
    ],
    "currency": "EUR",
}


def _run(folder: Path, *arguments: str) -> str:
    scripts = {
        "gpu-exporter": f'echo "$@" >> {folder}/asked\n'
        f"case $* in *nobody*) cat {folder}/none ;; *) cat {folder}/rows ;; esac\n",
        "sacctmgr": 'printf "physics|carol,dan\\nnobody|eve\\nroot|\\n"\n',
        "mail": f'{{ echo "$2 to $3"; cat; }} >> {folder}/mails\n',
    }
    (folder / "rows").write_text(json.dumps(ROWS))
    (folder / "none").write_text('{"rows": [], "currency": "EUR"}')
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [sys.executable, str(KIT / "monthly.py"), "--month", "2026-10", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60).stdout


def test_users_get_rank_and_trend_and_coordinators_their_account(tmp_path: Path) -> None:
    assert _run(tmp_path, "--domain", "site.edu") == ""

    mails = (tmp_path / "mails").read_text()
    subject = "GPU hours in 2026-10 to"
    assert f"{subject} alice@site.edu\nGPU hours of alice in 2026-10: 120.0, +20% to the month before\n" in mails
    assert "Rank 2 of 2 users\n" in mails
    assert mails.count("Cost: ") == mails.count("\nCost: 240.00 EUR, wasted: 24.50 EUR\n") == 1
    assert f"{subject} bob@site.edu\nGPU hours of bob in 2026-10: 120.0\nRank 1 of 2 users\n" in mails
    account = """\
GPU hours of account physics in 2026-10: 240.0

Rank  User                   GPU hours        Used      Wasted   Trend
   2  alice                      120.0        90.0        12.0    +20%
   1  bob                        120.0        90.0        12.0
"""
    assert f"{subject} carol@site.edu\n{account}" in mails
    assert f"{subject} dan@site.edu\n{account}" in mails
    assert "eve" not in mails
    assert (tmp_path / "asked").read_text().splitlines() == [
        "report --month 2026-10 --by user --format json",
        "report --month 2026-10 --team physics --by user --format json",
        "report --month 2026-10 --team nobody --by user --format json",
    ]


def test_dry_run_prints_and_sends_nothing(tmp_path: Path) -> None:
    assert "To: alice\nGPU hours of alice" in _run(tmp_path, "--dry-run")
    assert not (tmp_path / "mails").exists()
