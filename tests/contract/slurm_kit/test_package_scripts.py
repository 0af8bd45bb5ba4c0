"""What the packages do to a running service: an upgrade restarts it, an installation starts nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "deploy/package/scripts"
PROGRAMS = ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "python3")
RELOAD = "systemctl daemon-reload"
RESTART = "systemctl try-restart gpu-exporter.service gpu-exporter-accounting.service"
DISABLE = "systemctl disable --now gpu-exporter.service gpu-exporter-summaries.timer gpu-exporter-accounting.service"


def calls(script: str, folder: Path, *arguments: str) -> list[str]:
    """Return the calls of systemctl on a machine that systemd runs; nothing of this one is touched."""
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{folder}/calls\n')
        program.chmod(0o755)
    text = (SCRIPTS / script).read_text()
    for absolute, own in (
        ("/run/systemd/system", f"{folder}"),
        ("/usr/bin/python3 ", f"{folder}/python3 "),
        ("/etc/slurm", f"{folder}/slurm"),
    ):
        text = text.replace(absolute, own)
    command = ["sh", "-c", text, "script", *arguments]
    subprocess.run(command, env={"PATH": f"{folder}:/usr/bin:/bin"}, check=True)
    made = folder / "calls"
    return [line for line in made.read_text().splitlines() if line.startswith("systemctl ")] if made.exists() else []


@pytest.mark.parametrize("arguments", [("configure", ""), ("configure", "0.1.0"), ()], ids=["new", "upgrade", "rpm"])
def test_postinstall_restarts_the_running_services(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    assert calls("postinstall", tmp_path, *arguments) == [RELOAD, RESTART]


def test_postinstall_after_an_aborted_removal_calls_nothing(tmp_path: Path) -> None:
    assert calls("postinstall", tmp_path, "abort-remove") == []


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("remove", [DISABLE]), ("0", [DISABLE]), ("upgrade", []), ("1", [])],
    ids=["deb removal", "rpm removal", "deb upgrade", "rpm upgrade"],
)
def test_preremove_disables_the_units_only_in_a_removal(tmp_path: Path, argument: str, expected: list[str]) -> None:
    assert calls("preremove", tmp_path, argument) == expected


@pytest.mark.parametrize(
    ("argument", "expected"),
    [("remove", [RELOAD]), ("0", [RELOAD]), ("upgrade", []), ("1", [])],
    ids=["deb removal", "rpm removal", "deb upgrade", "rpm upgrade"],
)
def test_postremove_reloads_the_units_only_after_a_removal(tmp_path: Path, argument: str, expected: list[str]) -> None:
    assert calls("postremove", tmp_path, argument) == expected
