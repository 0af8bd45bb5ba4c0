"""What the set-up of the tests and the demo finds from an earlier one is made good, not stumbled over."""

from __future__ import annotations

import os
import shutil
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


NEEDED = ("bash", "env", "dirname", "id", "sha256sum", "mkdir", "chmod", "rm")
# Fails at what it is not said to have, and knows of no packages to borrow.
PYTHON = """\
#!/bin/sh
case $2 in
  *version_info*) exit {too_old} ;;
  "import venv") exit {no_venv} ;;
esac
[ "$1" = -V ] && echo Python 3.8.10
exit 1
"""
FAULTS = [
    (None, "demo: Python is missing: install it with: apt-get install python3"),
    (PYTHON.format(too_old=1, no_venv=0), "demo: python3 is Python 3.8.10: 3.10 or newer is needed"),
    (
        PYTHON.format(too_old=0, no_venv=1),
        "demo: Python's venv is missing: install it with: apt-get install python3-venv",
    ),
    (
        PYTHON.format(too_old=0, no_venv=0),
        "demo: python3-venv is missing: install it with: apt-get install python3-venv",
    ),
]


@pytest.mark.parametrize(("python", "said"), FAULTS, ids=["no Python", "an old one", "no venv", "no pip, no apt"])
def test_the_demo_names_in_one_line_what_to_install(python: str | None, said: str, tmp_path: Path) -> None:
    checkout, path = tmp_path / "checkout", tmp_path / "bin"
    path.mkdir()
    for name in NEEDED:
        (path / name).symlink_to(shutil.which(name) or name)
    if python:
        (path / "python3").write_text(python)
        (path / "python3").chmod(0o755)
    (checkout / "deploy/container").mkdir(parents=True)
    (checkout / "deploy/container/requirements.txt").touch()
    shutil.copytree(SCRIPT.parent, checkout / ".ci/make")

    done = subprocess.run(
        [checkout / ".ci/make/demo.sh"], env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert done.stderr.splitlines() == [said]
