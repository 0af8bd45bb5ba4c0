"""The unit file is one systemd takes, and as closed as docs/slurm.md says."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "deploy/systemd/gpu-exporter.service"


@pytest.mark.parametrize(
    "name",
    [UNIT.name, "gpu-exporter-summaries.service", "gpu-exporter-summaries.timer", "gpu-exporter-accounting.service"],
)
def test_systemd_takes_the_unit(tmp_path: Path, name: str) -> None:
    program = tmp_path / "gpu-exporter"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for unit in UNIT.parent.glob("gpu-exporter*.*"):
        # SlurmUser is not a user here; that it is one on a controller is for Slurm's package.
        text = unit.read_text().replace("/usr/bin/gpu-exporter", str(program)).replace("User=slurm", "User=root")
        (tmp_path / unit.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / name)], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_a_reload_reads_the_web_configuration_again() -> None:
    assert re.findall(r"^ExecReload=(.*)$", UNIT.read_text(), re.MULTILINE) == ["/bin/kill -HUP $MAINPID"]


def test_exposure_is_what_the_page_says(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text())
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in done.stderr:
        pytest.skip("systemd before 250 rates no file, only a unit that it has loaded")
    found = re.search(r"exposure level for \S+: ([\d.]+)", done.stdout)

    assert found, done.stderr
    said = re.search(r"exposure at most ([\d.]+) of 10", (ROOT / "docs/slurm.md").read_text())
    assert said
    assert float(found[1]) <= float(said[1]) < 2.5  # 1.8 by systemd 252, less by newer ones


def test_every_variable_in_the_settings_is_an_option() -> None:
    from exporter.tools.reference.shell_completion import commands  # noqa: PLC0415

    known = {option.environment for options in commands().values() for option in options}
    for file in (ROOT / "deploy/systemd").glob("default*"):
        named = re.findall(r"^#?(GPU_EXPORTER_\w+)=", file.read_text(), re.MULTILINE)
        assert named
        assert set(named) <= known, file.name
