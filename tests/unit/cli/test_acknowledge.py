"""`gpu-exporter acknowledge`: what names no GPU acknowledges nothing, and says so."""

from __future__ import annotations

import getpass
import os
import time
from pathlib import Path

import pytest

from exporter.core.clock import UnixTime, unix_time
from exporter.faults import acknowledgements, state_file
from exporter.faults.model import Fault, FaultKind, FaultState, RepairAction, SwitchFault
from exporter.faults.watch import NAME
from tests.command import run


@pytest.mark.parametrize(
    ("arguments", "option"),
    [(("--fault", "xid"), "fault"), (("--reason", "mended"), "reason"), (("--by", "ada"), "by")],
)
def test_a_fault_without_its_gpu_is_a_wrong_option(tmp_path: Path, arguments: tuple[str, ...], option: str) -> None:
    done = run("acknowledge", *arguments, "--state.dir", str(tmp_path))

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"gpu-exporter: --{option}: expected with --gpu, the GPU whose fault is over\n"


def test_without_any_of_them_the_faults_are_listed(tmp_path: Path) -> None:
    assert run("acknowledge", "--state.dir", str(tmp_path)) == (
        0,
        "",
        f"gpu-exporter: no fault is known in {tmp_path}\n",
    )


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("No username set in the environment")])
def test_a_user_without_a_name_is_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """As in a container whose user has no line in /etc/passwd; what Python raises depends on its version."""

    def unknown() -> str:
        raise error

    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(getpass, "getuser", unknown)
    fault = Fault("GPU-x", 3, FaultKind.LOST, "GPU_IS_LOST", RepairAction.RESTART, UnixTime(1_700_000_000.0))
    state_file.write_state(tmp_path / NAME, FaultState(faults=(fault,)))

    done = run("acknowledge", "--gpu", "3", "--reason", "reseated", "--state.dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert [each.by for each in acknowledgements.read_acknowledgements(tmp_path).entries] == [str(os.getuid())]


def test_acknowledgement_after_the_clock_was_set_back_is_later_than_the_last_one_all_the_same(tmp_path: Path) -> None:
    fault = Fault("GPU-a", 0, FaultKind.XID, "XID 119", RepairAction.RESET, UnixTime(1.0))
    last = UnixTime(unix_time() + 7200.0)
    state_file.write_state(tmp_path / NAME, FaultState(faults=(fault,), acknowledged_until=last))

    done = run("acknowledge", "--gpu", "0", "--reason", "mended", "--state.dir", str(tmp_path))

    assert (done.returncode, done.stderr) == (0, "")
    assert [each.time > last for each in acknowledgements.read_acknowledgements(tmp_path).entries] == [True]


def test_faults_are_listed_with_their_begin_in_local_time_and_their_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    faults = (
        Fault("GPU-a", 0, FaultKind.XID, "XID 119", RepairAction.RESET, UnixTime(1_700_000_000.0)),
        Fault("GPU-b", 1, FaultKind.LOST, "no\nanswer", RepairAction.RESTART, UnixTime(1_700_000_060.0)),
    )
    switches = (SwitchFault("2", "20034", UnixTime(1_700_000_000.0)),)
    state_file.write_state(tmp_path / NAME, FaultState(faults=faults, switches=switches))
    try:
        done = run("acknowledge", "--state.dir", str(tmp_path))
    finally:
        monkeypatch.undo()
        time.tzset()

    listed = (
        "GPU 0  xid  XID 119  since 2023-11-15 00:13  repair: reset\n"
        "GPU 1  lost  no\\nanswer  since 2023-11-15 00:14  repair: restart\n"
        "NVSwitch 2: SXID 20034  since 2023-11-15 00:13  repair: a reset of all GPUs together\n"
    )
    assert done == (0, listed, "")


@pytest.mark.parametrize("gpu", ["1", "GPU-b"])
def test_gpu_without_such_a_fault_is_said_to_have_none(tmp_path: Path, gpu: str) -> None:
    fault = Fault("GPU-b", 1, FaultKind.LOST, "no answer", RepairAction.RESTART, UnixTime(1_700_000_000.0))
    state_file.write_state(tmp_path / NAME, FaultState(faults=(fault,)))
    given = ("acknowledge", "--gpu", gpu, "--by", "ada", "--state.dir", str(tmp_path))

    assert run(*given, "--fault", "xid", "--reason", "x") == (1, "", f"gpu-exporter: GPU {gpu} has no such fault\n")
    assert run(*given, "--fault", "xxid", "--reason", "x").stderr.startswith("gpu-exporter: --fault: expected one of ")
    assert run(*given) == (2, "", "gpu-exporter: --reason: expected why the fault is over\n")
    assert run(*given, "--fault", "lost", "--reason", "card \n reseated") == (0, "", "")
    (entry,) = acknowledgements.read_acknowledgements(tmp_path).entries
    assert (entry.gpu, entry.kind, entry.by, entry.why) == (gpu, "lost", "ada", "card reseated")


def test_acknowledgement_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    fault = Fault("GPU-b", 1, FaultKind.LOST, "no answer", RepairAction.RESTART, UnixTime(1_700_000_000.0))
    state_file.write_state(tmp_path / NAME, FaultState(faults=(fault,)))
    file = tmp_path / acknowledgements.NAME
    file.mkdir()

    done = run("acknowledge", "--gpu", "1", "--reason", "x", "--state.dir", str(tmp_path))

    assert done == (2, "", f"gpu-exporter: {file}: Is a directory\n")


def test_fault_of_an_nvswitch_is_listed_and_acknowledged_without_a_gpu(tmp_path: Path) -> None:
    fault = SwitchFault("2", "20034", UnixTime(1_700_000_000.0))
    state_file.write_state(tmp_path / NAME, FaultState(switches=(fault,)))
    folder = ("--state.dir", str(tmp_path))

    assert run("acknowledge", *folder)[1].startswith("NVSwitch 2: SXID 20034  since 2023-11-1")
    assert run("acknowledge", "--fault", "nvswitch", "--reason", "fabric reset", *folder) == (0, "", "")

    assert [(each.gpu, each.kind) for each in acknowledgements.read_acknowledgements(tmp_path).entries] == [
        ("", "nvswitch")
    ]


def test_an_nvswitch_without_a_fault_is_said_to_have_none(tmp_path: Path) -> None:
    done = run("acknowledge", "--fault", "nvswitch", "--reason", "x", "--state.dir", str(tmp_path))

    assert done == (1, "", "gpu-exporter: no NVSwitch has such a fault\n")
