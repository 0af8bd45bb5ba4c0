"""The daily comparison with the scheduler: which jobs it takes, what it adds, and what it logs."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest

from exporter.attribution.owner import Owner
from exporter.config.load import load
from exporter.tools.report.accounting import command
from exporter.tools.report.accounting.collector import NodeAccess
from exporter.tools.report.accounting.database import Cursor, Database, Difference, SchedulerJob
from tests.unit.accounting.node import Job, Node

T0 = 1_760_000_400.0  # a full hour


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


def test_day_in_which_the_scheduler_did_not_answer_is_compared_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is read for two hours. The job ended 24 hours before it answers again."""
    clock, up = [T0 + 86400.0], T0 + 86400 + 7200
    end = int(up) - 86400
    job = f"7|7|ada|vision|gpu|q|c1|COMPLETED|0:0|{end - 3600}|{end}|3600|600|1|8|01:00:00||gres/gpu=2|"
    sacct = tmp_path / "sacct"
    sacct.write_text(f"#!/bin/sh\ntest -e {tmp_path}/up && echo '{job}'\n")
    sacct.chmod(0o755)

    class Rounds:
        def wait(self, seconds: float) -> None:
            clock[0] += seconds
            if clock[0] >= up:
                (tmp_path / "up").touch()
            if clock[0] > T0 + 3 * 86400:
                raise KeyboardInterrupt

    monkeypatch.setattr(command, "unix_time", lambda: clock[0])
    monkeypatch.setattr(command, "_serve_metrics", lambda *_: None)
    monkeypatch.setattr(threading, "Event", Rounds)
    monkeypatch.setattr(command, "collect", lambda *_: {})
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "600s", "--state.dir", str(tmp_path))

    with pytest.raises(KeyboardInterrupt):
        command.run(load(command.AccountingConfig, (*options, "--slurm.sacct", str(sacct)), {}))

    logged = capsys.readouterr().err
    assert logged.count("job 7: 2.00 GPU hours by the scheduler, 0.00 by the nodes") == 1


def test_time_that_is_added_ends_with_each_hour_and_with_the_job(database: Database) -> None:
    database.compare([SchedulerJob("7", T0 + 3590, T0 + 7290, 2.0, "eve", "robots")], 0.01)

    found = database._database.execute("SELECT hour, until, states FROM hours ORDER BY hour").fetchall()
    assert [(hour * 3600 - T0, until - T0, json.loads(states)) for hour, until, states in found] == [
        (0, 3600, {"unobserved": pytest.approx(20)}),
        (3600, 7200, {"unobserved": pytest.approx(7200)}),
        (7200, 7290, {"unobserved": pytest.approx(180)}),
    ]


@pytest.mark.parametrize("late", [False, True], ids=["read before", "read after"])
def test_mig_instance_is_no_whole_gpu_that_nodes_lack(late: bool, database: Database, tmp_path: Path) -> None:  # noqa: FBT001
    """Slurm counts each instance as a GPU. Its node may be read after the comparison."""
    seen, lost = Job("7", T0, T0 + 700, fraction=1 / 7, profile="1g.10gb"), SchedulerJob("7", T0, T0 + 700, 1.0)
    with contextlib.closing(Node(tmp_path / "gpu01.sqlite", [seen], T0 - 5)) as node:
        node.cycles(T0 + 720)
        rows = node.rows()
    for step in ("compare", "add") if late else ("add", "compare"):
        if step == "add":
            database.add("gpu01", "gpu01", Cursor("s", 1), rows, T0)
        else:
            database.compare([lost], 0.01)

    assert database.job("7", T0, T0 + 3600).seconds == pytest.approx(100.0)


def test_mig_job_that_no_node_saw_is_not_added_as_whole_gpus(tmp_path: Path) -> None:
    """Sites that count typed GPUs have the profile in AllocTRES."""
    end = int(time.time()) - 7200
    tres = "gres/gpu=2,gres/gpu:a100_1g.10gb=2"
    compared(
        tmp_path, f"echo '7|7|ada|vision|gpu|q|c1|COMPLETED|0:0|{end - 3600}|{end}|3600|600|1|8|01:00:00||{tres}|'"
    )

    with contextlib.closing(Database(tmp_path / command.DATABASE)) as found:
        assert found.totals("job", end - 86400.0, end + 86400.0) == []


@pytest.mark.parametrize(("gap", "known"), [(0.5, 600.0), (1.5, 0.0)])
def test_run_that_ended_a_second_before_this_one_began_is_another(gap: float, known: float, database: Database) -> None:
    """A requeued job has the id of its earlier run."""
    end = T0 + 600
    row = {
        "seq": 1, "allocation": "1", "start": T0, "end": end, "facts": {"owner": Owner("slurm:7", slurm_job="7")},
        "hour": int(T0 // 3600), "model": "A100", "profile": "", "until": end, "used": 0.0, "joules": 0.0,
        "states": {"computing": 600.0},
    }  # fmt: skip
    database.add("n1", "n1", Cursor("s", 1), [row], T0)

    job = SchedulerJob("7", end + gap, end + gap + 1200, 1.0)
    assert database.compare([job], 0.01) == [Difference("7", 1200.0, known)]


def test_nodes_are_asked_with_the_name_password_and_certificates_of_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[NodeAccess, str]] = []
    monkeypatch.setattr(NodeAccess, "ask", lambda access, target, _: asked.append((access, target)) or {})
    for name, content in (("password", "secret\n"), ("ca.pem", "certificates")):
        (tmp_path / name).write_text(content)
    files = ("--password-file", str(tmp_path / "password"), "--ca-file", str(tmp_path / "ca.pem"))
    options = ("--nodes", "https://gpu01:9836", "--username", "prometheus", *files, "--interval", "0")
    command.run(load(command.AccountingConfig, (*options, "--state.dir", str(tmp_path)), {}))

    assert asked == [(NodeAccess("prometheus", "secret", str(tmp_path / "ca.pem")), "https://gpu01:9836")]
