"""Whether this code makes the same series as that of another revision: `make same-series BASE=v1.0.0`.

Each runs its own `series_of.py`: every cycle of all captures, and 1,000 cycles of simulated nodes. A difference is
printed with the first lines that differ; a change of what is measured shows here, and has to be meant.
"""

from __future__ import annotations

import argparse
import difflib
import io
import subprocess
import sys
import tarfile
import tempfile
from itertools import islice
from pathlib import Path

from tests.captures import simulated

ROOT = Path(__file__).resolve().parents[2]
_SHOWN = 20
"""Lines of a difference."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="the revision to compare with")
    parser.add_argument("--cycles", type=int, default=1000, help="of simulated nodes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        packed = subprocess.run(["git", "archive", given.base], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(base)  # noqa: S202 - our own
        before, after = _series(base, given.cycles), _series(ROOT, given.cycles)
    difference = difflib.unified_diff(before, after, given.base, "here", n=0, lineterm="")
    lines = list(islice(difference, _SHOWN))
    sys.stdout.write("\n".join([*lines, f"{len(after)} cycles, {'some differ' if lines else 'all the same'}", ""]))
    return 1 if lines else 0


def _series(tree: Path, cycles: int) -> list[str]:
    """One line for each cycle; the captures are always these."""
    command = [sys.executable, "-m", "tests.bench.series_of", "--captures", str(simulated.folder())]
    found = subprocess.run([*command, "--passes", str(cycles)], cwd=tree, check=True, capture_output=True, text=True)
    return found.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
