"""Files of every format are read, and none that is damaged or of another version loses a fault in silence.

`formats/` has one file of each format since 23b2ed2b, written by the revision that is its name, with every fault of it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.core.families import Block
from exporter.exposition.page import Renderer
from exporter.faults import state_file
from exporter.faults.evaluate import evaluate
from exporter.faults.families import FAULT_FAMILIES, FaultStatus
from exporter.faults.model import ObservedGpu
from exporter.faults.rule import Limits, Verdict
from exporter.faults.watch import NAME, FaultTracker, FaultWatchConfig
from exporter.tools.check.exporter_page import parse
from tests.depth import DEEP

FORMATS = {path.stem: path.read_bytes() for path in sorted((Path(__file__).parent / "formats").glob("*.json"))}
SEED, FILES = 44, 10_000 if DEEP else 1_000
NOW = 1_790_000_600.0
UP = 'gpu_exporter_build_info{version="1",python="3"} 1\ngpu_up{gpu="0",uuid="GPU-0"} 1\n'
Faults = set[tuple[str, str, str]]


def started(folder: Path, data: bytes) -> FaultStatus:
    """Return what an exporter knows that finds this state file, and has not yet heard of any GPU."""
    (folder / NAME).write_bytes(data)
    tracker = FaultTracker(FaultWatchConfig(folder, "boot-1"))
    gpus = tuple(ObservedGpu(f"GPU-{n}", n, f"S{n}", f"0000:0{n + 1}:00.0", up=None) for n in range(2))
    tracker.observe(NOW, 600.0, gpus, (), driver=True)
    return tracker.status


def faults_of(status: FaultStatus) -> Faults:
    named = {(fault.uuid, fault.kind.value, fault.evidence) for fault in status.faults}
    return named | {("", fault.switch, fault.sxid) for fault in status.switches}


def written(folder: Path) -> bytes:
    """Return the newest format, as the present program writes it."""
    state_file.write_state(folder / "present", state_file.parse_state(FORMATS["29eb107b"]).state)
    return (folder / "present").read_bytes()


@pytest.mark.parametrize("name", FORMATS)
def test_file_of_each_format_is_read_without_a_loss(name: str, tmp_path: Path) -> None:
    stored = json.loads(FORMATS[name])

    loaded = state_file.parse_state(FORMATS[name])

    assert (loaded.cause, loaded.state.boot) == ("", "boot-1")
    assert [(f.uuid, f.index, f.kind.value, f.evidence, f.action.value, f.since) for f in loaded.state.faults] == [
        tuple(fault[key] for key in ("uuid", "index", "kind", "evidence", "action", "since"))
        for fault in stored["faults"]
    ]
    assert {uuid: (gpu.serial, gpu.links, gpu.last_reset) for uuid, gpu in loaded.state.devices.items()} == {
        f"GPU-{n}": (f"S{n}", 18, 1_789_991_000.0) for n in range(2)
    }
    assert len(loaded.state.switches) == 1
    again = written(tmp_path) if name == "29eb107b" else FORMATS[name]
    assert started(tmp_path, again).incomplete == ()


Change = Callable[[random.Random, bytes], bytes]


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) - 2)]


def flip(chance: random.Random, data: bytes) -> bytes:
    place = chance.randrange(len(data) - 2)
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def overwrite(chance: random.Random, data: bytes) -> bytes:
    """As a disk that gives back a block of another file."""
    begin = chance.randrange(len(data) - 2)
    return data[:begin] + chance.randbytes(chance.randint(1, 64)) + data[begin + chance.randint(1, 64) :]


def garbage(chance: random.Random, _data: bytes) -> bytes:
    return chance.choice([b"", b"null", b"[]", b"{}", b"\0" * 4096, b"[" * 9999, chance.randbytes(200)])


def records(content: Any) -> list[dict[str, Any]]:
    return [content, *content["devices"].values(), *content["faults"], *content["switches"]]


def edited(change: Callable[[random.Random, Any], None]) -> Change:
    """A change of the content; without the checksum, which the writer would have made anew."""

    def apply(chance: random.Random, data: bytes) -> bytes:
        content = json.loads(data)
        content.pop("checksum", None)
        change(chance, content)
        return json.dumps(content).encode()

    return apply


def unknown_field(chance: random.Random, content: Any) -> None:
    chance.choice(records(content))["colour"] = chance.choice([1, "red", None, {}])


def unknown_kind(chance: random.Random, content: Any) -> None:
    chance.choice(content["faults"])[chance.choice(["kind", "action"])] = chance.choice(["melted", "", None, 7, []])


def newer_version(chance: random.Random, content: Any) -> None:
    content["version"] = chance.choice([2, 3, 99, "1", None, 1.5])
    unknown_field(chance, content)


def odd_value(chance: random.Random, content: Any) -> None:
    record = chance.choice(records(content))
    name = chance.choice(list(record))
    empty = [odd for odd in ([], {}) if type(odd) is not type(record[name])]  # a list without faults is no damage
    record[name] = chance.choice([None, *empty, float("nan"), -1 if isinstance(record[name], str) else "odd"])


def left_out(chance: random.Random, content: Any) -> None:
    record = chance.choice(records(content))
    del record[chance.choice(list(record))]


BYTES: tuple[Change, ...] = (flip, overwrite)
"""Of the present format alone: earlier ones have no checksum, and a changed digit is another number there."""
CHANGES: tuple[Change, ...] = (
    cut, garbage,
    *(edited(change) for change in (unknown_field, unknown_kind, newer_version, odd_value, left_out)),
)  # fmt: skip


def test_no_changed_file_loses_a_fault_in_silence(tmp_path: Path) -> None:
    formats = {**FORMATS, "present": written(tmp_path)}
    whole = {name: faults_of(started(tmp_path, data)) for name, data in formats.items()}
    lost: list[str] = []
    for number in range(FILES):
        chance = random.Random(f"{SEED} {number}")  # noqa: S311 - the same files every time
        name = chance.choice([*formats, "present", "present"])
        change = chance.choice([*CHANGES, *(BYTES * 3 if name == "present" else ())])
        data = change(chance, formats[name])
        for aside in tmp_path.glob(f"{NAME}.*"):
            aside.unlink()
        status = started(tmp_path, data)
        if faults_of(status) >= whole[name] and not (status.incomplete and name == "present"):
            continue
        kept = [path.read_bytes() for path in tmp_path.glob(f"{NAME}.*")]
        page = Renderer().render([Block(family, (), status) for family in FAULT_FAMILIES], "")[1].decode()
        verdict = evaluate(parse(UP + page, NOW), Limits()).verdict
        if kept != [data] or "gpu_exporter_faults_incomplete{" not in page or verdict < Verdict.FAILED:
            lost.append(f"seed {SEED}, file {number} ({name}): {whole[name] - faults_of(status)}, {status.incomplete}")

    assert lost == []


def test_every_flipped_bit_of_a_file_is_found(tmp_path: Path) -> None:
    data = written(tmp_path)
    places = range(len(data) * 8) if DEEP else range(0, len(data) * 8, 7)

    silent = [
        place
        for place in places
        if not state_file.parse_state(
            data[: place // 8] + bytes([data[place // 8] ^ 1 << place % 8]) + data[place // 8 + 1 :]
        ).cause
    ]

    assert silent == []
