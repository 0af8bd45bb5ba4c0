"""What the packages do to a running service: an upgrade starts it anew, an installation starts nothing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "deploy/package"
PROGRAMS = ("systemctl", "systemd-sysusers", "systemd-tmpfiles", "python3")
RELOAD, RESTART = "systemctl daemon-reload", "systemctl try-restart gpu-exporter.service"


def sections(*names: str) -> str:
    """Scripts of the RPM, in this order."""
    spec = (PACKAGE / "gpu-exporter.spec").read_text()
    found = dict(re.findall(r"^%(\w+)\n(.*?)(?=^%\w+\n)", spec, re.MULTILINE | re.DOTALL))
    return "\n".join(found[name] for name in names)


def said(script: str, folder: Path, *arguments: str) -> list[str]:
    """What a script asks of systemctl on a machine that systemd runs; nothing of this one is touched."""
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "${{0##*/}} $*" >>{folder}/said\n')
        program.chmod(0o755)
    text = script.replace("/run/systemd/system", str(folder)).replace("/usr/bin/python3", f"{folder}/python3")
    command = ["sh", "-c", text, "script", *arguments]
    subprocess.run(command, env={"PATH": f"{folder}:/usr/bin:/bin"}, check=True)
    return [line for line in (folder / "said").read_text().splitlines() if line.startswith("systemctl ")]


@pytest.mark.parametrize(
    "script",
    [(PACKAGE / "debian/postinst").read_text(), sections("post", "posttrans")],
    ids=["deb", "rpm"],
)
def test_installation_and_upgrade_start_a_running_service_anew_once_its_files_are_there(
    tmp_path: Path, script: str
) -> None:
    assert said(script, tmp_path, "configure") == [RELOAD, RESTART]


def test_removed_unit_is_forgotten(tmp_path: Path) -> None:
    assert said((PACKAGE / "debian/postrm").read_text(), tmp_path, "remove") == [RELOAD]
    (tmp_path / "said").unlink()
    assert said(sections("postun"), tmp_path, "0") == [RELOAD]
