"""What programs report: read, added up, given to the right owner, and never to somebody else's."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.owner import Owner
from exporter.host.model import HostProcess
from exporter.progress.counters import ProgressCounters
from exporter.progress.reader import ProgressReader
from exporter.progress.report import Progress, Report, parse, together

ADA, BOB = Owner("slurm:1", "slurm"), Owner("slurm:2", "slurm")
ME = os.getuid()


def host(pid: int) -> HostProcess:
    return HostProcess(pid, "python3", "ada", 100.0, 0.0, 0, "")


def proc(folder: Path, pid: int, uid: int, own: int) -> None:
    (folder / str(pid)).mkdir(parents=True)
    (folder / str(pid) / "status").write_text(f"Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\t{own}\n")


def leave(folder: Path, name: str, **content: Any) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"pid": 7, "samples": 10, "steps": 2, "progress": 0.5}', Report(7, Progress(10, 2, 0.5))),
        ('{"pid": 7, "progress": 3}', Report(7, Progress(ratio=1.0))),
        ('{"pid": 7, "samples": -1, "steps": 4}', Report(7, Progress(steps=4))),
        ('{"pid": 7}', None),
        ('{"samples": 1}', None),
        ('{"pid": true, "samples": 1}', None),
        ("[1]", None),
        ("{", None),
        ('{"pid": 7, "samples": NaN}', None),
    ],
)
def test_report_is_read_as_far_as_it_makes_sense(text: str, expected: Report | None) -> None:
    assert parse(text) == expected


@given(st.text(max_size=100) | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_no_text_breaks_the_reader(text: str) -> None:
    parse(text)


def test_ranks_add_up() -> None:
    assert together([Progress(10, 3, 0.5), Progress(20, 4, 0.4), Progress()]) == Progress(30, 4, 0.4)


def test_report_goes_to_the_owner_of_the_process_also_from_its_own_namespace(tmp_path: Path) -> None:
    proc(tmp_path / "proc", 5000, ME, 71)
    leave(tmp_path / "progress", "a.json", pid=71, samples=10)
    reader = ProgressReader(tmp_path / "progress", tmp_path / "proc")

    assert reader.read({5000: ADA}, {5000: host(5000)}, 0.0) == {ADA: Progress(samples=10)}


def test_nobody_reports_for_another_user(tmp_path: Path) -> None:
    proc(tmp_path / "proc", 5000, ME + 1, 71)
    leave(tmp_path / "progress", "a.json", pid=71, samples=10)
    reader = ProgressReader(tmp_path / "progress", tmp_path / "proc")

    assert reader.read({5000: ADA}, {5000: host(5000)}, 0.0) == {}


def test_report_that_fits_two_owners_is_nobodys(tmp_path: Path) -> None:
    proc(tmp_path / "proc", 5000, ME, 71)
    proc(tmp_path / "proc", 6000, ME, 71)
    leave(tmp_path / "progress", "a.json", pid=71, samples=10)
    reader = ProgressReader(tmp_path / "progress", tmp_path / "proc")

    assert reader.read({5000: ADA, 6000: BOB}, {5000: host(5000), 6000: host(6000)}, 0.0) == {}


def test_links_large_files_and_others_are_passed_over(tmp_path: Path) -> None:
    proc(tmp_path / "proc", 5000, ME, 71)
    folder = tmp_path / "progress"
    leave(folder, "notes.txt", pid=71, samples=1)
    leave(folder, "large.json", pid=71, samples=1, padding="x" * 5000)
    leave(tmp_path / "elsewhere", "secret", pid=71, samples=1)
    (folder / "link.json").symlink_to(tmp_path / "elsewhere" / "secret")
    os.mkfifo(folder / "pipe.json")
    reader = ProgressReader(folder, tmp_path / "proc")

    assert reader.read({5000: ADA}, {5000: host(5000)}, 0.0) == {}


def test_directory_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert ProgressReader(tmp_path / "none").read({}, {}, 0.0) == {}


def values(book: ProgressCounters, reported: dict[Owner, Progress], owners: list[Owner]) -> list[float]:
    return [sample.value for block in book.blocks(reported, owners) for sample in block.samples]


def test_counters_survive_a_restarted_program_and_end_with_the_workload() -> None:
    book = ProgressCounters()

    assert values(book, {ADA: Progress(100, 10, 0.5)}, [ADA]) == [100, 10, 0.5]
    assert values(book, {ADA: Progress(5, 1, 0.1)}, [ADA]) == [105, 11, 0.1]
    assert values(book, {}, [ADA]) == [105, 11]
    assert values(book, {}, []) == []
