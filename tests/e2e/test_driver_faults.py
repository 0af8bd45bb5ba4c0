"""A ninth of the matrix of `make faults`: what a driver may answer, planted in every function one after the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_faults_of_the_driver_cost_their_own_series_alone_and_are_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults.matrix", "--quick"], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].endswith("0 unclean {}")
