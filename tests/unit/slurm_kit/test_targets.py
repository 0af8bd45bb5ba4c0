"""Targets for Prometheus from what scontrol shows."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

FILE = Path(__file__).resolve().parents[3] / "deploy/slurm/targets.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slurm_targets", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KIT = _load()
SHOWN = """\
NodeName=n2 Arch=x86_64 Gres=gpu:h100:8,shard:32 NodeAddr=10.0.0.2 NodeHostName=n2 State=MIXED+DRAIN Partitions=gpu,all Reason=fan NodeName=x [root@now]
NodeName=n1 Arch=x86_64 Gres=gpu:8 NodeAddr=10.0.0.1 NodeHostName=n1 State=DOWN* Partitions=gpu
NodeName=cpu1 Arch=x86_64 Gres=(null) NodeAddr=10.0.0.3 NodeHostName=cpu1 State=IDLE Partitions=all
NodeName=c1 Arch=x86_64 Gres=gpu:4 NodeAddr=c1 NodeHostName=c1 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud
"""  # noqa: E501 - as printed


def test_nodes_with_gpus_that_are_meant_to_be_on() -> None:
    assert KIT.targets(SHOWN, 9836) == [
        {"targets": ["10.0.0.1:9836"], "labels": {"node": "n1", "slurm_partition": "gpu"}},
        {"targets": ["10.0.0.2:9836"], "labels": {"node": "n2", "slurm_partition": "gpu"}},
    ]


def test_nodes_that_are_switched_off_are_listed_apart(tmp_path: Path) -> None:
    file, off = tmp_path / "targets.json", tmp_path / "off.json"
    done = made_by(f"cat <<'END'\n{SHOWN}END", file, "--powered-down", off)

    assert (done.returncode, done.stderr) == (0, "")
    assert [entry["labels"]["node"] for entry in json.loads(file.read_text())] == ["n1", "n2"]
    assert json.loads(off.read_text()) == [
        {"targets": ["c1:9836"], "labels": {"node": "c1", "slurm_partition": "cloud"}}
    ]


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert json.dumps(KIT.targets(text, 1))


def test_file_is_replaced_only_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"

    assert KIT.write(file, "[]\n")
    first = file.stat().st_ino
    assert not KIT.write(file, "[]\n")
    assert file.stat().st_ino == first
    assert KIT.write(file, "[1]\n")
    assert list(tmp_path.iterdir()) == [file]


def test_failing_scontrol_leaves_the_file(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text("[]\n")
    done = subprocess.run([sys.executable, FILE, file, "--scontrol", "false"], capture_output=True, check=False)

    assert done.returncode == 1
    assert file.read_text() == "[]\n"


@pytest.mark.parametrize(
    "state", ["IDLE+CLOUD+POWER", "IDLE~", "IDLE#+CLOUD", "IDLE%", "FUTURE", "DOWN+POWERED_DOWN", "IDLE+POWERING_DOWN"]
)
def test_node_that_is_switched_off_on_purpose_is_no_target(state: str) -> None:
    assert KIT.targets(f"NodeName=c1 Gres=gpu:4 NodeAddr=c1 State={state}", 9836) == []


@pytest.mark.parametrize("state", ["IDLE", "DOWN*", "MIXED+DRAIN", "ALLOCATED@", "IDLE-", "IDLE+POWER_DOWN", "IDLE$"])
def test_node_that_is_meant_to_be_on_is_a_target(state: str) -> None:
    assert len(KIT.targets(f"NodeName=c1 Gres=gpu:4 NodeAddr=c1 State={state}", 9836)) == 1


def test_ipv6_address_is_in_brackets() -> None:
    (entry,) = KIT.targets("NodeName=n1 Gres=gpu:4 NodeAddr=fd00::1 State=IDLE", 9836)

    assert entry["targets"] == ["[fd00::1]:9836"]


def made_by(scontrol: str, file: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    command = file.with_name("scontrol")
    command.write_text(f"#!/bin/sh\n{scontrol}\n")
    command.chmod(0o755)
    return subprocess.run(
        [sys.executable, FILE, file, "--scontrol", command, *more],
        capture_output=True,
        text=True,
        check=False,
        umask=0o077,
    )


@pytest.mark.parametrize("said", ["true", "echo No nodes in the system"])
def test_scontrol_that_shows_no_node_leaves_the_file(said: str, tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text("[1]\n")
    done = made_by(said, file)

    assert (done.returncode, file.read_text()) == (1, "[1]\n")
    assert done.stderr == f"targets: {tmp_path}/scontrol shows no node\n"


def test_cluster_whose_gpu_nodes_have_gone_has_no_targets(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    file.write_text("[1]\n")

    assert made_by("echo NodeName=cpu1 Gres= State=IDLE", file).returncode == 0
    assert file.read_text() == "[]\n"


def test_reason_in_another_encoding_takes_no_node_away(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    done = made_by(r"printf 'NodeName=n1 Gres=gpu:4 NodeAddr=n1 State=DOWN Reason=d\351faut\n'", file)

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(file.read_text())[0]["targets"] == ["n1:9836"]


def test_nodes_of_hidden_partitions_are_targets_and_the_file_is_for_prometheus_to_read(tmp_path: Path) -> None:
    file = tmp_path / "targets.json"
    said = 'case " $* " in *" -a "*) echo NodeName=n1 Gres=gpu:4 NodeAddr=n1 State=IDLE ;; esac'
    done = made_by(said, file)

    assert (done.returncode, done.stderr) == (0, "")
    assert file.stat().st_mode & 0o7777 == 0o644


def test_scontrol_that_hangs_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []

    def run(*_: object, timeout: float | None = None, **__: object) -> subprocess.CompletedProcess[str]:
        waited.append(timeout)
        return subprocess.CompletedProcess((), 0, SHOWN, "")

    monkeypatch.setattr(KIT.subprocess, "run", run)

    assert KIT._shown("scontrol") == SHOWN
    assert waited == [60]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--port", "0"), "argument --port: expected a port from 1 to 65535, got '0'"),
        (("--port", "65536"), "argument --port: expected a port from 1 to 65535, got '65536'"),
        (("--port", "-9836"), "argument --port: expected a port from 1 to 65535, got '-9836'"),
        (("--powered-down", "./targets.json"), "--powered-down: expected another file than targets.json"),
    ],
)
def test_options_that_make_no_targets_are_refused(options: tuple[str, ...], complaint: str, tmp_path: Path) -> None:
    command = [sys.executable, FILE, "targets.json", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"targets.py: error: {complaint}")
    assert list(tmp_path.iterdir()) == []


def test_file_that_was_left_as_no_text_is_replaced(tmp_path: Path) -> None:
    """As by a disk that failed."""
    file = tmp_path / "targets.json"
    file.write_bytes(b"\xff\x00")
    done = made_by("echo NodeName=n1 Gres=gpu:4 NodeAddr=n1 State=IDLE", file)

    assert (done.returncode, done.stderr, len(json.loads(file.read_text()))) == (0, "", 1)
