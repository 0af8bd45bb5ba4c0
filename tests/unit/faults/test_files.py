"""The two files of the state folder: who may read and write them, what is refused, and what is told."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from exporter.core.clock import EPOCH
from exporter.faults import acknowledgements, state_file
from exporter.faults.expected import boot_id
from exporter.faults.model import Acknowledgement, Fault, FaultKind, FaultState, GpuRecord, RepairAction
from exporter.faults.state_file import StateError, parse_state
from exporter.tools.check import acknowledge

SAID = Acknowledgement("0", "xid", "ada", "reseated", 100.0)
FAULT = Fault("GPU-0", 0, FaultKind.XID, "XID 119", RepairAction.RESET, 100.0)
STATE = FaultState("b", {"GPU-0": GpuRecord(0)}, (FAULT,))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_anybody_may_read_what_was_acknowledged_and_the_group_the_faults(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        acknowledge.append(tmp_path, SAID)
        state_file.write_state(tmp_path / "faults.json", STATE)
    finally:
        os.umask(before)

    assert (mode(tmp_path / acknowledgements.NAME), mode(tmp_path / "faults.json")) == (0o644, 0o640)
    assert (tmp_path / "faults.json").read_text().startswith('{"version":1,"boot":"b",')


@pytest.mark.parametrize("umask", [0o027, 0o077])
def test_acknowledgement_of_a_root_that_is_careful_is_read_by_the_exporter(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        acknowledge.append(tmp_path, SAID)
    finally:
        os.umask(before)

    assert mode(tmp_path / acknowledgements.NAME) == 0o644


def test_a_file_that_others_could_write_stays_refused_after_another_line(tmp_path: Path) -> None:
    (tmp_path / acknowledgements.NAME).touch()
    (tmp_path / acknowledgements.NAME).chmod(0o662)
    acknowledge.append(tmp_path, SAID)

    with pytest.raises(StateError, match="only root"):
        acknowledgements.read_acknowledgements(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_root_takes_what_the_exporters_user_acknowledged(tmp_path: Path) -> None:
    acknowledge.append(tmp_path, SAID)
    for path in (tmp_path, tmp_path / acknowledgements.NAME):
        os.chown(path, 4321, -1)

    assert acknowledgements.read_acknowledgements(tmp_path).entries == (SAID,)


def test_acknowledgement_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious\n")
    (tmp_path / acknowledgements.NAME).symlink_to("victim")

    with pytest.raises(StateError, match=r"acknowledged.jsonl: Too many levels of symbolic links$"):
        acknowledge.append(tmp_path, SAID)

    assert (tmp_path / "victim").read_text() == "precious\n"


@pytest.mark.parametrize("permissions", [0o664, 0o646, 0o620, 0o602])
def test_acknowledgements_that_others_may_write_are_refused(permissions: int, tmp_path: Path) -> None:
    acknowledge.append(tmp_path, SAID)
    (tmp_path / acknowledgements.NAME).chmod(permissions)

    with pytest.raises(StateError, match="ignored"):
        acknowledgements.read_acknowledgements(tmp_path)


@pytest.mark.parametrize("permissions", [0o600, 0o644, 0o755])
def test_acknowledgements_that_others_may_only_read_are_taken(permissions: int, tmp_path: Path) -> None:
    acknowledge.append(tmp_path, SAID)
    (tmp_path / acknowledgements.NAME).chmod(permissions)

    assert acknowledgements.read_acknowledgements(tmp_path).entries == (SAID,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("owner", [1, 65534])
def test_acknowledgements_of_another_user_are_refused(owner: int, tmp_path: Path) -> None:
    acknowledge.append(tmp_path, SAID)
    os.chown(tmp_path / acknowledgements.NAME, owner, -1)

    with pytest.raises(StateError, match="ignored"):
        acknowledgements.read_acknowledgements(tmp_path)


def test_of_a_long_file_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        acknowledge.append(tmp_path, replace(SAID, why=f"try {number}"))
    size = (tmp_path / acknowledgements.NAME).stat().st_size
    monkeypatch.setattr(acknowledgements, "_MAX_BYTES", size // 20 * 3)

    assert [said.why for said in acknowledgements.read_acknowledgements(tmp_path).entries][-2:] == ["try 18", "try 19"]
    assert len(acknowledgements.read_acknowledgements(tmp_path).entries) < 4


def test_acknowledgement_after_one_that_a_full_disk_broke_off_is_read(tmp_path: Path) -> None:
    path = tmp_path / acknowledgements.NAME
    path.write_text('{"time": 1.0, "gpu": "0", "fau')
    path.chmod(0o644)

    acknowledge.append(tmp_path, SAID)
    acknowledge.append(tmp_path, SAID)

    assert acknowledgements.read_acknowledgements(tmp_path).entries == (SAID, SAID)
    assert path.read_text().count("\n") == 3


@pytest.mark.parametrize("time", ["NaN", "1e999", "-Infinity", "1e300", "-1", "null"])
def test_an_acknowledgement_of_no_date_leaves_those_before_and_after_it(time: str, tmp_path: Path) -> None:
    acknowledge.append(tmp_path, SAID)
    with (tmp_path / acknowledgements.NAME).open("a") as file:
        file.write(f'{{"time": {time}, "gpu": "0", "fault": "", "by": "ada", "why": "by hand"}}\n')
    acknowledge.append(tmp_path, SAID)

    assert acknowledgements.read_acknowledgements(tmp_path).entries == (SAID, SAID)


def content(**changed: Any) -> dict[str, Any]:
    plain = {"boot": "b", "acknowledged_until": 0.0, "accepted": [], "switches": [], "faults": [asdict(FAULT)]}
    return {"version": 1, **plain, "devices": {"GPU-0": asdict(GpuRecord(0))}, **changed}


def known(**changed: Any) -> dict[str, Any]:
    return {"GPU-0": {**asdict(GpuRecord(0)), **changed}}


BROKEN_KIND = {**asdict(FAULT), "kind": "broken"}


@pytest.mark.parametrize(
    ("written", "cause", "reason", "kept"),
    [
        (content(version=2), "version", "version 2", STATE),
        (content(devices=known(colour=1)), "unknown", r"unknown \['colour'\]", STATE),
        (content(devices=known(links="many")), "damaged", "no value: links", STATE),
        (
            content(devices=known(joules="many", missing_since="", returned_at=[1.0])),
            "damaged",
            "no value: joules, missing_since, returned_at",
            STATE,
        ),
        (content(devices=known(uncorrected=float("nan"))), "damaged", "no value: uncorrected", STATE),
        (content(devices=known(index=None)), "damaged", "no value: index", replace(STATE, devices={})),
        (content(faults=[asdict(FAULT), BROKEN_KIND]), "unknown", "'broken' is not a valid FaultKind", STATE),
        (
            content(faults=[{**asdict(FAULT), "action": "dance"}]),
            "unknown",
            "'dance' is not a valid RepairAction",
            replace(STATE, faults=(replace(FAULT, action=RepairAction.INSPECT),)),
        ),
        (
            content(faults=[{**asdict(FAULT), "since": float("nan")}]),
            "damaged",
            "a time is none",
            replace(STATE, faults=(replace(FAULT, since=EPOCH),)),
        ),
        (content(acknowledged_until=float("inf")), "damaged", "a time is none", STATE),
        (content(faults=None), "damaged", "a list is missing", replace(STATE, faults=())),
        (content(colour=1), "unknown", r"unknown \['colour'\]", STATE),
        (content(switches=None), "damaged", "a list is missing", STATE),
        (content(boot=None), "damaged", "a text is missing", replace(STATE, boot="")),
        (
            content(devices=known(expected=None, bus=5, width="x")),
            "damaged",
            "no value: bus, expected, width",
            STATE,
        ),
        ({}, "damaged", "version None", FaultState()),
    ],
)
def test_state_file_that_is_understood_in_part_gives_that_part(
    written: dict[str, Any], cause: str, reason: str, kept: FaultState, tmp_path: Path
) -> None:
    (tmp_path / "faults.json").write_text(json.dumps(written))

    found = state_file.read_state(tmp_path / "faults.json")

    assert (found.state, found.cause) == (kept, cause)
    assert re.fullmatch(reason, found.reason)


def test_state_file_with_more_faults_than_a_node_can_have_gives_the_first() -> None:
    faults = [{**asdict(FAULT), "index": number} for number in range(1025)]

    found = parse_state(json.dumps(content(faults=faults)).encode())

    assert (len(found.state.faults), found.cause, found.reason) == (1024, "damaged", "more than 1024 entries")


def test_state_file_cut_off_anywhere_says_so_and_keeps_whole_faults(tmp_path: Path) -> None:
    state_file.write_state(tmp_path / "faults.json", STATE)
    text = (tmp_path / "faults.json").read_bytes()
    end_of_faults = text.index(b"]", text.index(b'"faults"'))

    for length in range(len(text)):
        found = parse_state(text[:length])
        assert found.cause == "damaged"
        assert found.state.faults == ((FAULT,) if length >= end_of_faults else ())


def test_state_file_of_an_earlier_version_has_xid_79_as_a_lost_gpu() -> None:
    earlier = replace(FAULT, evidence="XID 79", action=RepairAction.RESTART)

    (fault,) = parse_state(json.dumps(content(faults=[asdict(earlier)])).encode()).state.faults

    assert fault == replace(earlier, kind=FaultKind.LOST)


def test_file_set_aside_is_one_for_each_cause_and_counts_until_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    for text in ("first", "second", "second"):
        path.write_text(text)
        state_file.set_aside(path, "damaged")
    state_file.set_aside(path, "version")
    made = (tmp_path / "faults.json.damaged").stat().st_ctime

    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "faults.json": "second",
        "faults.json.damaged": "second",
        "faults.json.version": "second",
    }
    assert state_file.causes_set_aside(path, made - 1) == ("damaged", "version")
    assert state_file.causes_set_aside(path, made + 1) == ()


def test_state_of_the_largest_node_is_read_and_evidence_is_cut(tmp_path: Path) -> None:
    faults = [{**asdict(FAULT), "evidence": "x" * 201, "index": number} for number in range(1024)]
    (tmp_path / "faults.json").write_text(json.dumps(content(faults=faults)))

    found = state_file.read_state(tmp_path / "faults.json").state.faults

    assert len(found) == 1024
    assert {fault.evidence for fault in found} == {"x" * 200}


@pytest.mark.parametrize(("size", "cause"), [(4 << 20, "damaged"), ((4 << 20) + 1, "large")])
def test_file_of_more_than_four_mebibytes_is_not_read(size: int, cause: str, tmp_path: Path) -> None:
    with (tmp_path / "faults.json").open("wb") as file:
        file.truncate(size)

    assert state_file.read_state(tmp_path / "faults.json").cause == cause


@pytest.mark.parametrize(
    ("plant", "complaint"),
    [(Path.mkdir, "Is a directory"), (lambda path: path.parent.rmdir(), "No such file or directory")],
)
def test_state_that_cannot_be_written_is_told(plant: Callable[[Path], object], complaint: str, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    plant(folder / "faults.json")

    with pytest.raises(StateError, match=f"faults.json: {complaint}$"):
        state_file.write_state(folder / "faults.json", STATE)

    assert not list(tmp_path.rglob(".*.new"))


@pytest.mark.parametrize("user", [0, 1000])
def test_a_file_that_root_writes_is_the_services_as_its_folder_is(
    user: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "fchown", lambda _, owner, group: given.append((owner, group)))

    state_file.write_state(tmp_path / "faults.json", STATE)

    folder = tmp_path.stat()
    assert given == ([(folder.st_uid, folder.st_gid)] if user == 0 else [])


def test_what_a_write_that_was_broken_off_left_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / ".faults.json.new").hardlink_to(tmp_path / "elsewhere")

    state_file.write_state(tmp_path / "faults.json", STATE)

    assert (tmp_path / "elsewhere").read_text() == "kept"
    assert state_file.read_state(tmp_path / "faults.json").state == STATE


def test_boot_is_what_the_kernel_calls_it(tmp_path: Path) -> None:
    assert boot_id(tmp_path) == ""

    (tmp_path / "sys/kernel/random").mkdir(parents=True)
    (tmp_path / "sys/kernel/random/boot_id").write_text(f"{'b' * 70}\n")

    assert boot_id(tmp_path) == "b" * 64
