"""Names that users choose hold characters at which str.splitlines() cuts: they forge no line of what is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exporter.attribution.cgroup import trusted_cgroup
from exporter.attribution.slurm.prolog_files import parse_job_file
from exporter.host.process import parse_uid
from exporter.progress.processes import Cgroups, in_host_namespace, process
from exporter.tools.report.summaries.worker import update_hints

CUTS = sorted(
    {line[-1] for line in "x".join(map(chr, range(sys.maxunicode + 1))).splitlines(keepends=True)[:-1]} - {"\n"}
)
"""A newline is escaped by the kernel in names of processes, and refused in names of cgroups."""
STAT = "7 (x) S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 500 0 100 0"

pytestmark = pytest.mark.parametrize("mark", CUTS, ids=[f"U+{ord(mark):04X}" for mark in CUTS])


def status(name: str) -> str:
    return f"Name:\t{name}\nUmask:\t0022\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t7\t1\n"


def test_name_of_a_process_changes_neither_its_user_nor_its_namespace(mark: str, tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text(STAT)
    (folder / "status").write_text(status(f"{mark}Uid:\t0\t0"))
    reporter = process(7, tmp_path)

    assert parse_uid(status(f"{mark}Uid:\t0\t0")) == 1000
    assert reporter is not None
    assert reporter.user == 1000

    (folder / "status").write_text(status(f"{mark}NSpid:\t7"))
    assert not in_host_namespace(7, tmp_path)


def test_name_of_a_users_cgroup_is_no_path_of_a_job(mark: str, tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    line = f"0::/user.slice/user-1000.slice/user@1000.service/x{mark}0::/system.slice/slurmstepd.scope/job_5/step_0\n"
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "cgroup").write_text(line)

    assert trusted_cgroup(line, tmp_path).job == ""
    assert list(Cgroups(tmp_path, tmp_path).paths(7)) == [line[3:].rstrip("\n")]


def test_name_of_a_job_is_not_its_user(mark: str) -> None:
    found = parse_job_file("5", f"SLURM_JOB_ID=5\nSLURM_JOB_USER=alice\nSLURM_JOB_NAME=x{mark}SLURM_JOB_USER=root\n")

    assert found is not None
    assert found.variables.job.user == "alice"


def test_name_of_a_job_leaves_the_hints_of_its_user_readable(mark: str, tmp_path: Path) -> None:
    made = {"job": "1", "job_name": f"a{mark}b", "user": "alice", "utilization": 0.1, "next_time": ["--gpus=1"]}
    for _ in range(2):  # what the first round wrote, the next one reads
        update_hints(tmp_path, [made], {"alice": 1000}.get)

    assert (tmp_path / "1000").read_text() == "a b\tthe last such job, 1, used 10 % of its GPUs; next time --gpus=1\n"
