"""Asking scontrol: by JSON, by text, and whatever a job's user does to the text."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm import scontrol
from exporter.attribution.slurm.job import Job, NodeGres
from exporter.attribution.slurm.scontrol import ShowJob
from exporter.core.printable import printable

TEXT = (
    "JobId={id}{more} JobName={name} UserId=alice(1001) GroupId=a(1) MCS_label=N/A Account=physics QOS=high "
    "JobState=RUNNING Partition=gpu  Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3) MinCPUsNode=1 Command=/x WorkDir=/y"
)
ALICE = Job(
    "7", "alice", "physics", "gpu", "x", "high", state="RUNNING", gres=(NodeGres(frozenset({"n1"}), "gpu", 1, (3,)),)
)
OLD = "case $2 in --json) echo \"scontrol: unrecognized option '--json'\" >&2; exit 1;; esac\n"


BRIEF = "s|  Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3) MinCPUs| MinCPUs|; s|$| TresPerNode=gres:gpu:1|"
"""What scontrol leaves out without -d, and what a job asked for, which is always there."""


def text(name: str = "x", job: str = "7", more: str = "") -> str:
    return TEXT.format(id=job, name=name, more=more)


def script(folder: Path, body: str, name: str = "scontrol") -> str:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


def old(folder: Path, output: str | bytes, asked: str = "7") -> ShowJob:
    """A scontrol of Slurm 22.05 that says `output` of a job."""
    said = folder / f"said-{asked}"
    said.write_bytes(output if isinstance(output, bytes) else output.encode())
    detailed = f'[ "$1 $2 $3 $4 $5" = "--local -o -d show job" ] && exec cat {folder}/said-$6'
    brief = f'[ "$1 $2 $3 $4" = "--local -o show job" ] && sed "{BRIEF}" {folder}/said-$5'
    return ShowJob(script(folder, f"{OLD}{detailed}\n{brief}"))


def squeue(folder: Path, line: str) -> None:
    script(folder, f"echo '{line}'", "squeue")


def test_command_is_asked_for_one_job(tmp_path: Path) -> None:
    assert old(tmp_path, text())("7") == replace(ALICE, gres=None)
    assert old(tmp_path, text()).with_gpus("7") == ALICE


@pytest.mark.parametrize(
    ("more", "gres"),
    [
        ("OverSubscribe=OK", ()),
        ("OverSubscribe=YES", ()),
        ("OverSubscribe=NO", None),
        ("OverSubscribe=OK TresPerNode=gres:gpu:2", None),
        ("OverSubscribe=OK TresPerJob=gres/shard:2", None),
        ("TRES=cpu=1,gres/gpu=8 OverSubscribe=OK", None),
    ],
)
def test_text_without_details_leaves_open_which_gpus_only_where_there_may_be_some(
    tmp_path: Path, more: str, gres: tuple[()] | None
) -> None:
    before, _, after = TEXT.partition("  Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:3)")
    (tmp_path / "said").write_text(
        f"{before}{after}".format(id="7", name="x", more="").replace("Command", f"{more} Command")
    )
    found = ShowJob(script(tmp_path, f"{OLD}cat {tmp_path}/said"))("7")

    assert found is not None
    assert found.gres == gres


@pytest.mark.parametrize(
    "name", [" Command=/bin/x", "a Account=rich QOS=x", "a  Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:8(IDX:0-7)", "a\nb"]
)
def test_name_like_a_field_changes_nothing(tmp_path: Path, name: str) -> None:
    found = old(tmp_path, text(name)).with_gpus("7")

    assert found is not None
    assert (found.user, found.account, found.name, found.gres) == ("alice", "physics", printable(name), ALICE.gres)


def test_name_that_is_not_utf8_is_a_name(tmp_path: Path) -> None:
    found = old(tmp_path, text("x").encode().replace(b"JobName=x", b"JobName=\xff\xfe"))("7")

    assert found is not None
    assert (found.user, found.name) == ("alice", "\ufffd\ufffd")


@pytest.mark.parametrize(
    "name",
    [
        "x UserId=bob(2) GroupId=b(2) Account=rich QOS=q Command=y",
        "x UserId=bob(2) GroupId=b(2) Account=rich QOS=q\nJobId=8 JobName=y",
        "x\nJobId=7 JobName=y UserId=bob(2) GroupId=b(2) Account=rich QOS=q JobState=RUNNING Command=z\n",
    ],
)
def test_name_that_reads_like_somebody_elses_job_is_decided_by_squeue(tmp_path: Path, name: str) -> None:
    ask = old(tmp_path, text(name))
    squeue(tmp_path, "7|alice|physics|gpu|high|RUNNING")

    assert ask("7") == Job("7", "alice", "physics", "gpu", qos="high", state="RUNNING", gres=None)


def test_forged_name_without_squeue_is_nobodys_word(tmp_path: Path) -> None:
    ask = old(tmp_path, text("x UserId=bob(2) GroupId=b(2)"))
    script(tmp_path, "exit 1", "squeue")

    assert ask("7") is None


def test_answer_about_another_job_is_nobodys(tmp_path: Path) -> None:
    ask = old(tmp_path, text(job="8"))
    script(tmp_path, "exit 1", "squeue")

    assert ask("7") is None


def test_id_that_is_also_a_heterogeneous_jobs_is_asked_for_as_its_component(tmp_path: Path) -> None:
    """Slurm prints all components for the id of the first, as it does for an array's."""
    first, second = (text(job=job, more=f" HetJobId=7 HetJobOffset={place}") for place, job in enumerate("78"))
    old(tmp_path, first, asked="7+0")

    found = old(tmp_path, f"{first}\n{second}").with_gpus("7")
    assert found is not None
    assert (found.id, found.het_job, found.het_offset, found.gres) == ("7", "7", "0", ALICE.gres)


def test_id_that_is_also_an_arrays_is_asked_for_as_its_element(tmp_path: Path) -> None:
    both = "\n".join((text(job="8", more=" ArrayJobId=7 ArrayTaskId=2"), text(more=" ArrayJobId=7 ArrayTaskId=1")))
    old(tmp_path, text(more=" ArrayJobId=7 ArrayTaskId=1"), asked="7_1")

    found = old(tmp_path, both).with_gpus("7")
    assert found is not None
    assert (found.id, found.array_task, found.gres) == ("7", "1", ALICE.gres)


def test_endless_scontrol_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scontrol, "MAX_BYTES", 1 << 16)
    ask = ShowJob(script(tmp_path, f"{OLD}exec yes forever"))
    script(tmp_path, "exec yes forever", "squeue")

    assert ask("7") is None


def test_invalid_job_is_unknown_and_not_a_failure(tmp_path: Path) -> None:
    command = script(tmp_path, 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1')

    assert ShowJob(command)("7") is None


def test_command_that_fails_is_an_error(tmp_path: Path) -> None:
    command = script(tmp_path, 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')

    with pytest.raises(SourceError, match="Unable to contact"):
        ShowJob(command, timeout=60.0)("7")


@pytest.mark.parametrize("body", ["exec sleep 20", "sleep 20 & exec sleep 20"])
def test_command_that_hangs_is_an_error(tmp_path: Path, body: str) -> None:
    with pytest.raises(SourceError, match=r"no answer within 0\.3 s"):
        ShowJob(script(tmp_path, body), timeout=0.3)("7")


def test_missing_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="scontrol"):
        ShowJob(str(tmp_path / "scontrol"))("7")


def by_json(folder: Path, **fields: Any) -> ShowJob:
    job = {
        "job_id": 7, "name": "x", "user_name": "alice", "account": "physics", "partition": "gpu", "qos": "high",
        "job_state": ["RUNNING"], "nodes": "n1", "gres_detail": ["gpu:1(IDX:3)"], "tres_alloc_str": "gres/gpu=1",
        **fields,
    }  # fmt: skip
    (folder / "said.json").write_text(json.dumps({"jobs": [{"job_id": 8, "user_name": "bob"}, job], "errors": []}))
    return ShowJob(script(folder, f'[ "$*" = "--local --json -d show job 7" ] && cat {folder}/said.json'))


@pytest.mark.parametrize("name", ["x", "x UserId=bob(2) GroupId=b(2)\nJobId=7 JobName=y", "\ud800"])
def test_json_is_read_whatever_the_name_is(tmp_path: Path, name: str) -> None:
    found = by_json(tmp_path, name=name)("7")

    assert found is not None
    assert (found.user, found.account, found.state, found.gres) == ("alice", "physics", "RUNNING", ALICE.gres)
    assert found.name == printable(name)


def test_json_numbers_of_all_versions(tmp_path: Path) -> None:
    number = {"set": True, "infinite": False, "number": 90}
    found = by_json(
        tmp_path, job_state="RUNNING", time_limit=number, start_time=1795249276, array_job_id={**number, "number": 5},
        array_task_id={**number, "number": 0},
    )("7")  # fmt: skip

    assert found is not None
    assert (found.time_limit_seconds, found.start_time, found.array_job, found.array_task) == (
        5400,
        1795249276,
        "5",
        "0",
    )
    infinite = by_json(tmp_path, time_limit={"set": True, "infinite": True, "number": 0})("7")
    assert infinite is not None
    assert infinite.time_limit_seconds is None


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({"node_count": {"set": True, "infinite": False, "number": 4}, "tasks": {"set": True, "number": 16}}, (4, 16)),
        ({"node_count": 2, "tasks": 8}, (2, 8)),
        ({"nodes": "n[1-3]", "gres_detail": ["gpu:1(IDX:3)"] * 3}, (3, None)),
        ({"node_count": {"set": False, "number": 0}, "tasks": {"set": False, "number": 0}}, (1, None)),
    ],
)
def test_json_tells_how_large_the_job_is(
    tmp_path: Path, fields: dict[str, Any], counts: tuple[int | None, int | None]
) -> None:
    found = by_json(tmp_path, **fields)("7")

    assert found is not None
    assert (found.node_count, found.task_count) == counts


def test_json_that_hides_the_gpus_leaves_them_to_the_text(tmp_path: Path) -> None:
    by_json(tmp_path, gres_detail=[])
    (tmp_path / "said").write_text(text())
    ask = ShowJob(script(tmp_path, f'[ "$2" = "--json" ] && exec cat {tmp_path}/said.json; cat {tmp_path}/said'))

    assert ask("7") == replace(ALICE, gres=None, node_count=1, node_list="n1")
    assert ask.with_gpus("7") == ALICE


@pytest.mark.parametrize("document", ["", "[]", "{}", '{"jobs": 1}', '{"jobs": [], "errors": ["x"]}', "[" * 100_000])
def test_json_that_is_none_is_passed_over(tmp_path: Path, document: str) -> None:
    (tmp_path / "said.json").write_text(document)
    (tmp_path / "said").write_text(text())
    ask = ShowJob(script(tmp_path, f'[ "$2" = "--json" ] && exec cat {tmp_path}/said.json; cat {tmp_path}/said'))

    assert ask("7") == ALICE


def test_empty_json_is_of_an_unknown_job_or_of_a_slurmctld_that_is_away(tmp_path: Path) -> None:
    """Slurm 24.11 writes no error into either, and ends with status 0."""
    by_json(tmp_path)
    (tmp_path / "empty").write_text('{"jobs": [], "last_update": {"set": true, "number": 0}, "errors": []}')
    body = f'[ "$2" = --json ] && exec cat {tmp_path}/empty; cat {tmp_path}/why >&2; exit 1'
    ask = ShowJob(script(tmp_path, body), timeout=60.0)
    (tmp_path / "why").write_text("slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n")
    with pytest.raises(SourceError, match="Unable to contact"):
        ask("7")
    (tmp_path / "why").write_text("slurm_load_jobs error: Invalid job id specified\n")
    assert ask("7") is None

    (tmp_path / "said.json").rename(tmp_path / "empty")
    found = ask("7")
    assert found
    assert found.user == "alice"


@pytest.mark.parametrize(
    "odd", [{"job_id": "7"}, {"user_name": 1}, {"nodes": ["a"]}, {"gres_detail": [1, None]}, {"job_state": [{}]}]
)
def test_json_fields_of_odd_types_are_survived(tmp_path: Path, odd: dict[str, Any]) -> None:
    (tmp_path / "said").write_text(text())
    by_json(tmp_path, **odd)

    ShowJob(script(tmp_path, f'[ "$2" = "--json" ] && exec cat {tmp_path}/said.json; cat {tmp_path}/said'))("7")


def test_json_node_list_says_where_the_job_runs(tmp_path: Path) -> None:
    found = by_json(tmp_path, nodes="n[1-3]", gres_detail=["gpu:1(IDX:3)"] * 3)("7")

    assert found is not None
    assert [found.runs_on({node}) for node in ("n1", "n4")] == [True, False]
