"""`make plant`: plant each fault of `faults.py` in a copy of the tree, and see that a test fails."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.planted.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache/planted"
_COPIED = ("exporter", "tests", "docs", "deploy", "helm", "pyproject.toml", "README.md")
_PASSED, _FAILED = 0, 1


def prepare() -> None:
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name in _COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, WORK / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, WORK / name)


def planted(fault: Fault) -> str:
    """The file with the fault in it. Raises SystemExit where the code has moved on and the fault must follow."""
    text = (ROOT / "exporter" / fault.file).read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"plant: exporter/{fault.file}: expected {fault.old!r} once, found {text.count(fault.old)}")
    return text.replace(fault.old, fault.new)


def noticed(fault: Fault) -> bool | None:
    """Whether a test fails; None where the tests could not be run."""
    path = WORK / "exporter" / fault.file
    before = path.read_text()
    path.write_text(planted(fault))
    tests = [f"tests/{each}" for each in fault.tests.split()]
    fast = () if all(each.endswith(".py") for each in tests) else ("--fast",)
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *fast, *tests]
    try:
        done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, check=False)
    finally:
        path.write_text(before)
    return {_PASSED: False, _FAILED: True}.get(done.returncode)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make plant", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="only faults of files whose path has this in it")
    given = parser.parse_args(arguments)
    chosen = [each for each in FAULTS if not given.files or any(part in each.file for part in given.files)]
    for fault in chosen:
        planted(fault)
    prepare()
    missed = 0
    for fault in chosen:
        outcome = noticed(fault)
        missed += outcome is not True
        said = {True: "noticed", False: "NOT NOTICED", None: "tests did not run"}[outcome]
        sys.stdout.write(f"{said}: {fault.file}: {fault.old.strip()} -> {fault.new.strip() or 'nothing'}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} faults planted, {len(chosen) - missed} noticed\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
