"""`make plant`: plant each fault of `faults.py` in a copy of the tree, and see that a test fails."""

from __future__ import annotations

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path

from tests.planted.fault import Fault
from tests.planted.faults import FAULTS

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache/planted"
_COPIED = ("exporter", "dashboards", "tests", "docs", "deploy", "helm", "pyproject.toml", "README.md")
_SHARED = ("prometheus", "grafana-data")
"""Programs that tests start."""
_PASSED, _FAILED = 0, 1
_SHOWN = 120
"""Characters of a test's name, which may hold a whole page as its parameter."""
_FAILURE = re.compile(r"^(?:FAILED|ERROR) (?:tests/)?(?P<test>.+?)(?: - .*)?$", re.MULTILINE)


def copies(number: int) -> list[Path]:
    """As many copies of the tree, so that a fault is alone in the one it is planted in."""
    shutil.rmtree(WORK, ignore_errors=True)
    folders = [WORK / str(index) for index in range(number)]
    for folder in folders:
        folder.mkdir(parents=True)
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, folder / name)
        (folder / ".cache").mkdir()
        for name in _SHARED:
            (folder / ".cache" / name).symlink_to(ROOT / ".cache" / name)
    return folders


def planted(fault: Fault) -> str:
    """The file with the fault in it. Raises SystemExit where the code has moved on and the fault must follow."""
    text = (ROOT / fault.path).read_text()
    if text.count(fault.old) != 1:
        raise SystemExit(f"plant: {fault.path}: expected {fault.old!r} once, found {text.count(fault.old)}")
    return text.replace(fault.old, fault.new)


@contextmanager
def changed(path: Path, text: str) -> Iterator[None]:
    """Another text in a file, and no compiled form of the one in place of the other: both may be of one second."""
    before = path.read_text()
    compiled = Path(cache_from_source(str(path)))
    compiled.unlink(missing_ok=True)
    path.write_text(text)
    try:
        yield
    finally:
        path.write_text(before)
        compiled.unlink(missing_ok=True)


def outcome(fault: Fault, folder: Path) -> tuple[bool, str]:
    """Whether a test notices the fault, and a line that says which, or what there was instead."""
    tests = [f"tests/{each}" for each in fault.tests.split()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    with changed(folder / fault.path, planted(fault)):
        if fault.path.startswith("dashboards/"):  # tests read the JSON, which is written anew for each fault
            subprocess.run([sys.executable, "-m", "dashboards"], cwd=folder, check=True)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    what = f"{fault.file}: {fault.old.strip()} -> {fault.new.strip() or 'nothing'}"
    if done.returncode == _PASSED:
        return False, f"NOT NOTICED: {what} (by {fault.tests})\n"
    found = _FAILURE.search(done.stdout)
    if done.returncode != _FAILED or not found:
        return False, f"TESTS DID NOT RUN: {what}\n{done.stdout[-2000:]}{done.stderr[-2000:]}\n"
    return True, f"noticed: {what}, by {found['test'][:_SHOWN]}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make plant", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", help="only faults of files whose path has this in it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults at once (default: one a core)")
    given = parser.parse_args(arguments)
    chosen = [each for each in FAULTS if not given.files or any(part in each.file for part in given.files)]
    for fault in chosen:
        planted(fault)
    free: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for folder in copies(given.jobs):
        free.put(folder)

    def tried(fault: Fault) -> bool:
        folder = free.get()
        try:
            noticed, line = outcome(fault, folder)
        finally:
            free.put(folder)
        sys.stdout.write(line)
        sys.stdout.flush()
        return noticed

    with ThreadPoolExecutor(given.jobs) as pool:
        noticed = sum(pool.map(tried, chosen))
    sys.stdout.write(f"{len(chosen)} faults planted, {noticed} noticed\n")
    return 0 if noticed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
