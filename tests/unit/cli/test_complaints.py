"""What the commands say of a wrong input is one line, whatever the names of files in it hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.core.printable import printable
from tests.command import run


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--config.file"),
        ("serve", "--web.config.file"),
        ("once", "--driver.capture"),
        ("report", "4711", "--prometheus.bearer-token-file"),
        ("capture", "--simulate", "1xT4"),
        ("acknowledge", "--state.dir"),
        ("once", "--simulate"),
        ("check", "--check.url"),
    ],
)
def test_a_name_with_a_newline_and_a_colour_in_it_leaves_one_plain_line(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = run(*arguments, f"{tmp_path}/no\n\x1b[31mfolder/file")

    assert done.stderr.startswith("gpu-exporter: ")
    assert done.stderr.endswith("\n")
    assert (done.stderr.count("\n"), "\x1b" in done.stderr) == (1, False)
    assert "no\\n\\x1b[31mfolder" in done.stderr


def test_what_is_printed_of_a_name_stays_as_it_is() -> None:
    assert printable("/srv/données/µ 日本.yaml") == "/srv/données/µ 日本.yaml"


def test_two_files_to_record_to_are_refused(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"

    done = run("capture", str(first), "--capture.file", str(second), "--simulate", "1xT4", "--capture.duration", "1s")

    assert done.returncode == 2
    assert done.stderr == f"gpu-exporter: capture: expected one file, got '{first}' and --capture.file '{second}'\n"
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_nothing_names_all_it_can_be_of() -> None:
    done = run("report")

    assert all(f"--{option}" in done.stderr for option in ("pod", "workload", "user", "account", "namespace", "all"))
