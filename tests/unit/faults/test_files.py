"""The two files of the state folder: who may read and write them, what is refused, and what is told."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from exporter.faults import acknowledgements, state_file
from exporter.faults.expected import boot_id
from exporter.faults.model import Acknowledgement, Action, Fault, FaultState, Kind, KnownGpu
from exporter.faults.state_file import StateError

SAID = Acknowledgement("0", "xid", "ada", "reseated", 100.0)
FAULT = Fault("GPU-0", 0, Kind.XID, "XID 119", Action.RESET, 100.0)
STATE = FaultState("b", {"GPU-0": KnownGpu(0)}, (FAULT,))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_anybody_may_read_what_was_acknowledged_and_the_group_the_faults(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        acknowledgements.append(tmp_path, SAID)
        state_file.write(tmp_path / "faults.json", STATE)
    finally:
        os.umask(before)

    assert (mode(tmp_path / acknowledgements.NAME), mode(tmp_path / "faults.json")) == (0o644, 0o640)
    assert (tmp_path / "faults.json").read_text().startswith('{"version":1,"boot":"b",')


@pytest.mark.parametrize("umask", [0o027, 0o077])
def test_acknowledgement_of_a_root_that_is_careful_is_read_by_the_exporter(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        acknowledgements.append(tmp_path, SAID)
    finally:
        os.umask(before)

    assert mode(tmp_path / acknowledgements.NAME) == 0o644


def test_a_file_that_others_could_write_stays_refused_after_another_line(tmp_path: Path) -> None:
    (tmp_path / acknowledgements.NAME).touch()
    (tmp_path / acknowledgements.NAME).chmod(0o662)
    acknowledgements.append(tmp_path, SAID)

    with pytest.raises(StateError, match="only root"):
        acknowledgements.read(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_takes_what_the_exporters_user_acknowledged(tmp_path: Path) -> None:
    acknowledgements.append(tmp_path, SAID)
    for path in (tmp_path, tmp_path / acknowledgements.NAME):
        os.chown(path, 4321, -1)

    assert acknowledgements.read(tmp_path) == (SAID,)


def test_acknowledgement_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious\n")
    (tmp_path / acknowledgements.NAME).symlink_to("victim")

    with pytest.raises(StateError, match=r"acknowledged.jsonl: Too many levels of symbolic links$"):
        acknowledgements.append(tmp_path, SAID)

    assert (tmp_path / "victim").read_text() == "precious\n"


@pytest.mark.parametrize("permissions", [0o664, 0o646, 0o620, 0o602])
def test_acknowledgements_that_others_may_write_are_refused(permissions: int, tmp_path: Path) -> None:
    acknowledgements.append(tmp_path, SAID)
    (tmp_path / acknowledgements.NAME).chmod(permissions)

    with pytest.raises(StateError, match="ignored"):
        acknowledgements.read(tmp_path)


@pytest.mark.parametrize("permissions", [0o600, 0o644, 0o755])
def test_acknowledgements_that_others_may_only_read_are_taken(permissions: int, tmp_path: Path) -> None:
    acknowledgements.append(tmp_path, SAID)
    (tmp_path / acknowledgements.NAME).chmod(permissions)

    assert acknowledgements.read(tmp_path) == (SAID,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [1, 65534])
def test_acknowledgements_of_another_user_are_refused(owner: int, tmp_path: Path) -> None:
    acknowledgements.append(tmp_path, SAID)
    os.chown(tmp_path / acknowledgements.NAME, owner, -1)

    with pytest.raises(StateError, match="ignored"):
        acknowledgements.read(tmp_path)


def test_of_a_long_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        acknowledgements.append(tmp_path, replace(SAID, why=f"try {number}"))
    size = (tmp_path / acknowledgements.NAME).stat().st_size
    monkeypatch.setattr(acknowledgements, "_LARGEST", size // 20 * 3)

    assert [said.why for said in acknowledgements.read(tmp_path)][-2:] == ["try 18", "try 19"]
    assert len(acknowledgements.read(tmp_path)) < 4


def test_acknowledgement_after_one_that_a_full_disk_broke_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / acknowledgements.NAME
    path.write_text('{"time": 1.0, "gpu": "0", "fau')
    path.chmod(0o644)

    acknowledgements.append(tmp_path, SAID)
    acknowledgements.append(tmp_path, SAID)

    assert acknowledgements.read(tmp_path) == (SAID, SAID)
    assert path.read_text().count("\n") == 3


@pytest.mark.parametrize("time", ["NaN", "1e999", "-Infinity", "1e300", "-1", "null"])
def test_an_acknowledgement_of_no_date_leaves_those_before_and_after_it(time: str, tmp_path: Path) -> None:
    acknowledgements.append(tmp_path, SAID)
    with (tmp_path / acknowledgements.NAME).open("a") as file:
        file.write(f'{{"time": {time}, "gpu": "0", "fault": "", "by": "ada", "why": "by hand"}}\n')
    acknowledgements.append(tmp_path, SAID)

    assert acknowledgements.read(tmp_path) == (SAID, SAID)


def content(**changed: Any) -> dict[str, Any]:
    plain = {"boot": "b", "acknowledged_until": 0.0, "accepted": [], "faults": [asdict(FAULT)]}
    return {"version": 1, **plain, "devices": {"GPU-0": asdict(KnownGpu(0))}, **changed}


def known(**changed: Any) -> dict[str, Any]:
    return {"GPU-0": {**asdict(KnownGpu(0)), **changed}}


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        (content(version=2), "version 2"),
        (content(devices=known(colour=1)), r"unknown \['colour'\]"),
        (content(devices=known(links="many")), "a number is none"),
        (content(devices=known(joules="many")), "a number is none"),
        (content(devices=known(away="")), "a number is none"),
        (content(devices=known(back=[1.0])), "a number is none"),
        (content(devices=known(uncorrected=float("nan"))), "a number is none"),
        (content(faults=[asdict(FAULT)] * 1025), "more than 1024 entries"),
        (content(faults=[{**asdict(FAULT), "kind": "broken"}]), "'broken' is not a valid Kind"),
        (content(faults=[{**asdict(FAULT), "since": float("nan")}]), "a time is none"),
        (content(acknowledged_until=float("inf")), "a time is none"),
        (content(faults=None), "'NoneType' object is not iterable"),
        ({}, "'version'"),
    ],
)
def test_state_that_cannot_be_used_is_refused_with_the_reason(
    written: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps(written))

    with pytest.raises(StateError, match=rf"faults.json: not the faults this version wrote: {complaint}$"):
        state_file.read(tmp_path / "faults.json")


def test_state_of_the_largest_node_is_read_and_evidence_is_cut(tmp_path: Path) -> None:
    faults = [{**asdict(FAULT), "evidence": "x" * 201, "index": number} for number in range(1024)]
    (tmp_path / "faults.json").write_text(json.dumps(content(faults=faults)))

    found = state_file.read(tmp_path / "faults.json").faults

    assert len(found) == 1024
    assert {fault.evidence for fault in found} == {"x" * 200}


@pytest.mark.parametrize(
    ("size", "complaint"), [(4 << 20, "not the faults"), ((4 << 20) + 1, "larger than 4194304 bytes")]
)
def test_file_of_more_than_four_mebibytes_is_not_read(size: int, complaint: str, tmp_path: Path) -> None:
    with (tmp_path / "faults.json").open("wb") as file:
        file.truncate(size)

    with pytest.raises(StateError, match=complaint):
        state_file.read(tmp_path / "faults.json")


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [(Path.mkdir, "Is a directory"), (lambda path: path.parent.rmdir(), "No such file or directory")],
)
def test_state_that_cannot_be_written_is_told(plant: Callable[[Path], object], complaint: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    plant(folder / "faults.json")

    with pytest.raises(StateError, match=f"faults.json: {complaint}$"):
        state_file.write(folder / "faults.json", STATE)

    assert not list(tmp_path.rglob(".*.new"))


@pytest.mark.parametrize("user", [0, 1000])
def test_a_file_that_root_writes_is_the_services_as_its_folder_is(
    user: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: given.append((owner, group)))

    state_file.write(tmp_path / "faults.json", STATE)

    folder = tmp_path.stat()
    assert given == ([(folder.st_uid, folder.st_gid)] if user == 0 else [])


def test_what_a_write_that_was_broken_off_left_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / ".faults.json.new").hardlink_to(tmp_path / "elsewhere")

    state_file.write(tmp_path / "faults.json", STATE)

    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert state_file.read(tmp_path / "faults.json") == STATE


def test_boot_is_what_the_kernel_calls_it(tmp_path: Path) -> None:
    assert boot_id(tmp_path) == ""

    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(f"{'b' * 70}\n")

    assert boot_id(tmp_path) == "b" * 64
