"""`make mutate`: change the code in small ways, a seeded sample of them a folder, and see that tests fail.

mutmut makes the mutants and runs the tests that reach each. A folder passes when enough of its sample is killed, and no
mutant survives that is not in its list of survivors (`tests/mutation/survivors`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutation import kept
from tests.mutation.rooms import ROOMS, Room

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".cache/mutate"
SEED = 20250101
_COPIED = ("exporter", "tests", "docs", "deploy", "helm", "dashboards", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
_LEFT_OUT = "not promtool and not check_command and not openssl_is_loaded and not closed_folder"
"""Tests that start other programs, and one that lists the modules a program loads: mutmut adds its own."""
_ALIVE = frozenset({0, 33})
"""Exit codes in mutmut's files: the tests passed, or none reaches the mutant. A time-out is a kill."""


def prepare(room: str, config: Room) -> Path:
    """A copy of the tree with mutmut's configuration for one folder."""
    folder = WORK / room
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "mutants"))
        else:
            shutil.copy(source, folder / name)
    text = (ROOT / "pyproject.toml").read_text()
    also = [name for name in _COPIED if name not in {"exporter", "tests"}]
    tests = [each for each in config.tests if (ROOT / each).exists()]
    (folder / "pyproject.toml").write_text(
        f"{text}\n[tool.mutmut]\nsource_paths = ['exporter']\nonly_mutate = ['exporter/{room}/*']\n"
        f"do_not_mutate = {list(config.without)}\n"
        f"also_copy = {also}\npytest_add_cli_args_test_selection = {tests}\n"
        f"pytest_add_cli_args = ['-p', 'no:cacheprovider', '-x', '-q', '-k', '{_LEFT_OUT}']\n"
    )
    return folder


def mutmut(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def results(folder: Path) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for path in sorted((folder / "mutants/exporter").rglob("*.meta")):
        found |= json.loads(path.read_text())["exit_code_by_key"]
    return found


def sample(names: Sequence[str], size: int, seed: int) -> Sequence[str]:
    """The first by a hash of each: what changes in one function draws no other sample of all the rest."""

    def place(name: str) -> str:
        return hashlib.sha256(f"{seed} {name}".encode()).hexdigest()

    return sorted(names, key=place)[: size if size > 0 else None]


def hunt(room: str, size: int, seed: int) -> tuple[Path, dict[str, int | None], int]:
    """The copy, the outcome of each mutant of the sample, and how many mutants there are."""
    folder = prepare(room, ROOMS[room])
    said = mutmut(
        folder, "run", f"exporter.{room.replace('/', '.')}.nothing"
    )  # makes the mutants and learns which test reaches which
    names = sorted(results(folder))
    if not names:
        raise SystemExit(f"mutate: {room}: no mutants; mutmut says: {said[-2000:]}")
    chosen = sample(names, size, seed)
    said = mutmut(folder, "run", *chosen)
    outcomes = {name: code for name, code in results(folder).items() if name in set(chosen)}
    if None in outcomes.values():
        raise SystemExit(f"mutate: {room}: not every mutant was tried; mutmut says: {said[-2000:]}")
    return folder, outcomes, len(names)


def judge(room: str, size: int, seed: int, *, accept: bool) -> bool:
    folder, outcomes, total = hunt(room, size, seed)
    alive = {
        kept.describe(name, mutmut(folder, "show", name)): name for name, code in outcomes.items() if code in _ALIVE
    }
    known = dict(kept.load(room))
    equivalent = [each for each in alive if known.get(each)]
    counted = len(outcomes) - len(equivalent)
    killed = (counted - (len(alive) - len(equivalent))) / counted
    new = sorted(alive.keys() - known.keys())
    whole = len(outcomes) == total
    gone = sorted(known.keys() - alive.keys()) if whole else []
    sys.stdout.write(
        f"{room}: {len(outcomes)} of {total} mutants, {killed:.1%} killed (at least {ROOMS[room].least:.0%}), "
        f"{len(equivalent)} equivalent, {len(new)} new survivors\n"
    )
    sys.stdout.write("".join(f"  new: {each}\n" for each in new))
    if accept:
        kept.save(room, {**{each: why for each, why in known.items() if each not in gone}, **dict.fromkeys(new, "")})
    sys.stdout.write("".join(f"  killed now, take it off the list: {each}\n" for each in gone if not accept))
    return killed >= ROOMS[room].least and (accept or not (new or gone))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("rooms", nargs="*", metavar="FOLDER", help=f"of {', '.join(ROOMS)}; all of them by default")
    parser.add_argument("--size", type=int, default=60, help="mutants a folder; 0 for all (default 60)")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--accept", action="store_true", help="write the survivors into the lists: for a new folder only"
    )
    given = parser.parse_args(arguments)
    listed = [room for room in given.rooms or ROOMS if kept.load(room)]
    if given.accept and listed:
        parser.error(f"--accept: {listed[0]} has a list already, which may only shrink: write a test for what survives")
    unknown = [room for room in given.rooms if room not in ROOMS]
    if unknown:
        parser.error(f"{unknown[0]!r} is none of {', '.join(ROOMS)}")
    passed = [judge(room, given.size, given.seed, accept=given.accept) for room in given.rooms or ROOMS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
