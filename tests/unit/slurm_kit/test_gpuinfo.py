"""Nodes with GPUs as sinfo shows nodes, with what Prometheus says of them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).resolve().parents[3] / "deploy/slurm/gpuinfo.py"
SHOWN = """\
NodeName=n2 Gres=gpu:h100:8(S:0-1),shard:32 GresUsed=gpu:h100:3(IDX:0,2-3),shard:0 State=MIXED Partitions=gpu,all Reason=fan NodeName=x
NodeName=n1 Gres=gpu:4 GresUsed=gpu:0 State=DOWN* Partitions=gpu
NodeName=cpu1 Gres=(null) GresUsed= State=IDLE Partitions=all
"""  # noqa: E501 - as printed


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slurm_gpuinfo", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KIT = _load()


@pytest.mark.parametrize(
    ("gres", "number"),
    [
        ("gpu:8", 8),
        ("gpu:h100:8(S:0-1),shard:32", 8),
        ("gpu:a100:2(IDX:0,4),gpu:l4:1(IDX:5)", 3),
        ("gpu:1g.10gb:7", 7),
        ("gpu:3090:4,gpu:4090:2(S:0)", 6),
        ("gpu", 1),
        ("gpu:0", 0),
        ("(null)", 0),
        ("shard:8,gpux:3", 0),
    ],
)
def test_gpus_of_a_list(gres: str, number: int) -> None:
    assert KIT.gpus(gres) == number


def test_table_has_a_line_for_each_node_with_gpus() -> None:
    values = {"busy": {"n2": 0.37}, "allocated_idle": {"n2": 2.0}, "faults": {"n2": 1.0}}

    assert KIT.table(KIT.rows(KIT.nodes(SHOWN), values)) == (
        "NODE  PARTITION  STATE  GPUS  ALLOC  BUSY  ALLOCATED_IDLE  FAULTS\n"
        "n1    gpu        down*  4     0      -     -               -\n"
        "n2    gpu,all    mixed  8     3      37%   2.0             1\n"
    )
    assert [node["NodeName"] for node in KIT.nodes(SHOWN, "all")] == ["n2"]


def test_node_without_faults_has_none_and_one_that_is_not_scraped_is_not_said_to() -> None:
    shown = [row[-1] for row in KIT.rows(KIT.nodes(SHOWN), {"busy": {"n2": 0.0}, "faults": {}})]

    assert shown == ["-", "0"]


@pytest.mark.parametrize(
    ("hosts", "busy"),
    [
        ({"n2.example.com": 0.5, "n20": 0.1, "n": 0.2}, "50%"),
        ({"n2": 0.25, "n2.example.com": 0.5}, "25%"),
        ({"n2.a": 0.25, "n2.b": 0.5}, "-"),
    ],
)
def test_node_is_found_by_its_short_and_by_its_full_name(hosts: dict[str, float], busy: str) -> None:
    assert [row[5] for row in KIT.rows(KIT.nodes(SHOWN), {"busy": hosts})][1] == busy
    named = SHOWN.replace("NodeName=n2", "NodeName=n2.example.com", 1)
    assert [row[5] for row in KIT.rows(KIT.nodes(named), {"busy": {"n2": 0.75, "n2.other.com": 0.1}})][1] == "75%"


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert KIT.table(KIT.rows(KIT.nodes(text), {}))


@pytest.mark.parametrize("answer", [None, [], {}, {"data": {"result": [{}]}}, {"data": {"result": [{"metric": 1}]}}])
def test_answer_of_something_else_is_one_error(answer: object) -> None:
    with pytest.raises(KIT.PrometheusError):
        KIT.by_node(answer)


@pytest.mark.parametrize(
    ("url", "status", "error"),
    [
        ("http://127.0.0.1:1", 1, "gpuinfo: http://127.0.0.1:1:"),
        ("file:///etc/passwd", 2, "expected http://HOST or https://HOST"),
    ],
)
def test_without_prometheus_slurms_side_is_shown(tmp_path: Path, url: str, status: int, error: str) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_bytes(f"#!/bin/sh\ncat <<'EOF'\n{SHOWN}EOF\n".replace("fan", "d\xe9faut").encode("latin-1"))
    scontrol.chmod(0o755)
    done = subprocess.run(
        [sys.executable, FILE, "--prometheus.url", url, "--scontrol", scontrol], capture_output=True, text=True,
        check=False,
    )  # fmt: skip

    assert done.returncode == status
    assert error in done.stderr
    assert ("n1    gpu        down*  4     0" in done.stdout) == (status == 1)


def test_faults_that_prometheus_was_not_asked_for_are_not_said_to_be_none() -> None:
    assert {row[-1] for row in KIT.rows(KIT.nodes(SHOWN), {"busy": {"n1": 0.5, "n2": 0.0}})} == {"-"}
