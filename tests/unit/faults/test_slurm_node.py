"""Maintenance in Slurm is asked for from when Slurm is there: at boot the exporter may be first."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution.background_source import BackgroundSource
from exporter.cli import assembly
from exporter.config import load as config
from exporter.driver.nvml import NvmlDriver
from exporter.faults.model import ObservedGpu
from exporter.faults.watch import FaultWatch, Site

GPU = ObservedGpu("GPU-0", 0, "S", "0000:00:00.0", up=True, joules=5e6, uncorrected=0.0, links=18)
MAINTENANCE = 'echo "NodeName=$3 State=MAINT"'


def site(folder: Path, *options: str, body: str = MAINTENANCE) -> Site:
    scontrol = folder / "scontrol"
    scontrol.write_text(f"#!/bin/sh\n{body}\n")
    scontrol.chmod(0o755)
    given = (
        "--state.dir=",
        f"--attribution.slurm.gres-conf={folder}/gres.conf",
        f"--attribution.slurm.scontrol={scontrol}",
    )
    return assembly.fault_site(config.load((*given, *options), {}, config.options()), NvmlDriver())


def asked(watch: FaultWatch, source: BackgroundSource[bool | None]) -> tuple[tuple[str, ...], dict[str, bool]]:
    source.ask_once()
    watch.look(1000.0, source.answer.at, (GPU,), (), driver=True)
    told = dict(watch.status.sources)
    told.pop("file", None)
    return watch.status.maintenance, told


def test_a_slurmd_that_starts_after_the_exporter_is_asked(tmp_path: Path) -> None:
    found = site(tmp_path)
    watch, source = FaultWatch(found), found.slurm
    assert source

    assert asked(watch, source) == ((), {})
    (tmp_path / "gres.conf").write_text("Name=gpu File=/dev/nvidia0\n")
    assert asked(watch, source) == (("slurm",), {"slurm": True})
    (tmp_path / "gres.conf").unlink()  # as a configless slurmd does that stops for the maintenance
    assert asked(watch, source) == (("slurm",), {"slurm": True})


def test_a_slurm_that_fails_once_it_is_there_shows(tmp_path: Path) -> None:
    found = site(tmp_path, body="exit 1")
    watch, source = FaultWatch(found), found.slurm
    assert source

    assert asked(watch, source) == ((), {})
    (tmp_path / "gres.conf").touch()
    assert asked(watch, source) == ((), {"slurm": False})


def test_slurm_that_must_be_here_is_asked_without_gres_conf(tmp_path: Path) -> None:
    source = site(tmp_path, "--attribution.slurm=on").slurm
    assert source
    source.ask_once()

    assert source.answer.value is True


@pytest.mark.parametrize("option", ["--attribution.slurm=off", "--attribution.slurm.scontrol="])
def test_slurm_that_is_not_to_be_asked_is_not(tmp_path: Path, option: str) -> None:
    (tmp_path / "gres.conf").touch()

    assert site(tmp_path, option).slurm is None
