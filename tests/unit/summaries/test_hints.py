"""Hints for who submits a job: of each name the last job's, in a file for each user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.tools.report.summaries.worker import uid_of, update_hints


def made(job: str, name: str, *flags: str, user: str = "alice") -> dict[str, Any]:
    return {"job": job, "job_name": name, "user": user, "utilization": 0.12, "next_time": list(flags)}


def uid(user: str) -> int | None:
    return {"alice": 1000, "bob": 1001}.get(user)


def told(folder: Path, number: int = 1000) -> dict[str, str]:
    return dict(line.split("\t") for line in (folder / str(number)).read_text().splitlines())


def test_last_job_of_a_name_counts(tmp_path: Path) -> None:
    folder = tmp_path / "hints"
    update_hints(folder, [made("1", "train", "--mem=4G"), made("2", "train", "--mem=8G", "--gpus=1")], uid)
    update_hints(folder, [made("3", "eval", "--gpus=1"), made("4", "x", "--gpus=1", user="bob")], uid)

    assert told(folder) == {
        "train": "the last such job, 2, used 12 % of its GPUs; next time --mem=8G --gpus=1",
        "eval": "the last such job, 3, used 12 % of its GPUs; next time --gpus=1",
    }
    assert set(told(folder, 1001)) == {"x"}


def test_hint_is_gone_once_a_job_asked_for_what_it_used(tmp_path: Path) -> None:
    update_hints(tmp_path, [made("1", "train", "--mem=4G")], uid)
    update_hints(tmp_path, [made("2", "train")], uid)

    assert told(tmp_path) == {}


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        (made("1", "a\tb\nc", "--gpus=1"), {"a b c"}),
        (made("1", "", "--gpus=1"), set[str]()),
        (made("1", "train", "--gpus=1", user="../../etc/passwd"), set[str]()),
    ],
)
def test_text_of_users_makes_no_line_and_no_file(tmp_path: Path, summary: dict[str, Any], expected: set[str]) -> None:
    update_hints(tmp_path, [summary], uid)

    assert {name for file in tmp_path.iterdir() for name in told(tmp_path, int(file.name))} == expected


def test_names_are_bounded_and_the_oldest_go(tmp_path: Path) -> None:
    for number in range(80):
        update_hints(tmp_path, [made(str(number), f"name{number}", "--gpus=1")], uid)

    assert list(told(tmp_path)) == [f"name{number}" for number in range(30, 80)]


def test_user_is_looked_up() -> None:
    assert uid_of("root") == 0
    assert uid_of("nobody-of-that-name") is None


def test_file_that_a_round_left_half_written_stops_no_later_one(tmp_path: Path) -> None:
    (tmp_path / ".1000.new").write_text("half")
    update_hints(tmp_path, [made("1", "train", "--mem=4G")], uid)

    assert set(told(tmp_path)) == {"train"}


def test_damaged_file_of_hints_keeps_its_whole_lines(tmp_path: Path) -> None:
    (tmp_path / "1000").write_bytes(b"eval\ta hint\n\xff\xfe\n")
    update_hints(tmp_path, [made("1", "train", "--mem=4G")], uid)

    assert set(told(tmp_path)) == {"eval", "train"}
