"""What the set-up of the tests and the demo finds from an earlier one is made good, not stumbled over."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / ".ci/make/fetch-prometheus.sh"
PROGRAMS = ("prometheus", "promtool", "alertmanager", "amtool")


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """Where the four programs are installed: nothing is fetched."""
    folder = tmp_path / "usr/bin"
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho '{name}, version 2.53.0'\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "WITHOUT_SECOND": "1"}


def older_script(cache: Path) -> None:
    (cache / "unpacked/usr/bin").mkdir(parents=True)
    (cache / "bin/prometheus").write_text("#!/bin/sh\nexit 1\n")


def other_layout(cache: Path) -> None:
    older_script(cache)
    (cache / "layout").write_text("1\n")


def gone_from_the_machine(cache: Path) -> None:
    for name in PROGRAMS:
        (cache / "bin" / name).symlink_to(f"/nonexistent/{name}")


@pytest.mark.parametrize("earlier", [older_script, other_layout, gone_from_the_machine])
def test_what_an_earlier_set_up_left_is_made_anew(
    earlier: Callable[[Path], None], machine: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    (cache / "bin").mkdir(parents=True)
    earlier(cache)

    done = subprocess.run([SCRIPT, cache], env=machine, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert {path.name: str(path.readlink()) for path in (cache / "bin").iterdir()} == {
        name: f"{tmp_path}/usr/bin/{name}" for name in PROGRAMS
    }
