"""What runs without the package runs with the Python that Enterprise Linux 9 and Ubuntu 20.04 call python3."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
ALONE = [
    DEPLOY / name
    for name in (
        "slurm/targets.py",
        "slurm/gpuinfo.py",
        "slurm/gpudash.py",
        "slurm/monthly.py",
        "alertmanager/owners.py",
    )
]
OLDEST = (3, 8)
NEWER_METHODS = {"removeprefix", "removesuffix", "bit_count", "pairwise", "batched"}


def newer(text: str) -> Iterator[str]:
    """What Python had only after the oldest, of what is likely to be used."""
    for node in ast.walk(ast.parse(text, feature_version=OLDEST)):
        if isinstance(node, ast.Attribute) and node.attr in NEWER_METHODS:
            yield node.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "zip" and node.keywords:
            yield "zip(strict=...)"


@pytest.mark.parametrize("file", ALONE, ids=lambda file: file.name)
def test_program_that_is_used_alone_needs_no_new_python(file: Path) -> None:
    assert list(newer(file.read_text())) == []


@pytest.mark.parametrize("file", ALONE, ids=lambda file: file.name)
def test_program_that_is_used_alone_starts_with_the_oldest_python_here(file: Path) -> None:
    pythons = (shutil.which(f"python3.{minor}") for minor in range(OLDEST[1], 15))
    works = (each for each in pythons if each and subprocess.run([each, "-c", ""], check=False).returncode == 0)
    done = subprocess.run([next(works), file, "--help"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
