"""Builds `floor.c`, which makes the driver calls of a cycle in C."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

from tests.fake_nvml.build import SONAME, build

SOURCE = Path(__file__).with_name("floor.c")


def built(folder: Path) -> Path:
    """The program, made in `folder`."""
    files = metadata.files("nvidia-nvml-dev") or []
    header = next(Path(str(file.locate())) for file in files if file.name == "nvml.h")
    program = folder / "floor"
    command = ["gcc", "-std=gnu11", "-O1", f"-I{header.parent}", str(SOURCE), "-o", str(program)]
    subprocess.run([*command, f"-L{build()}", f"-l:{SONAME}"], check=True)
    return program
