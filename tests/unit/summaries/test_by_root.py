"""A round that root tries by hand leaves nothing that the unit's own user could not change."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exporter import commands
from exporter.tools.report.summaries.worker import update_hints

ANOTHER = 4321
ROUND = ("--slurm.sacct=", "--slurm.scontrol=true", "--prometheus.url", "http://127.0.0.1:1")
HINT = {"job": "7", "job_name": "train", "user": "alice", "utilization": 0.1, "next_time": ["--gpus=1"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_a_round_by_root_leaves_all_to_whom_the_folder_is(tmp_path: Path) -> None:
    os.chown(tmp_path, ANOTHER, ANOTHER)
    before = os.umask(0o077)
    try:
        commands.run("summaries", [*ROUND, "--state.dir", str(tmp_path)], {})
        for _ in range(2):
            update_hints(tmp_path / "hints", [HINT], lambda _: 1000)
    finally:
        os.umask(before)

    found = {str(path.relative_to(tmp_path)): path.stat().st_uid for path in tmp_path.rglob("*")}
    assert found == dict.fromkeys(("ended", "hints", "hints/1000", "lock", "summaries.sqlite"), ANOTHER)


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "hints").touch()

    with pytest.raises(OSError, match="exists"):
        update_hints(tmp_path / "hints", [HINT], lambda _: 1000)
