"""Moments of the two clocks cannot be mixed up, nor quantities; what lasts is measured on the monotonic clock."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.core import clock, units

ROOT = Path(__file__).resolve().parents[2]
EXPORTER = ROOT / "exporter"

MIXED = """
from exporter.core.clock import monotonic_time, unix_time
from exporter.core.units import Bytes, Joules, Fraction, Watts

{line}
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What mypy says of each line, in one run."""
    lines = (
        "difference = unix_time() - monotonic_time()",
        "later = unix_time() > monotonic_time()",
        "same = unix_time() == monotonic_time()",
        "number: float = unix_time()",
        "sum_ = unix_time() + monotonic_time()",
        "seconds: float = unix_time() - unix_time()",
        "later = monotonic_time() + 5.0 > monotonic_time()",
        "share: Fraction = Joules(5.0)",
        "joules: Joules = Watts(5.0)",
        "used: Bytes = 5",
        "part: Fraction = Fraction(0.5) * Fraction(0.5)",
        "total: float = Joules(5.0) + Joules(6.0)",
    )
    folder = tmp_path_factory.mktemp("mixed")
    for number, line in enumerate(lines):
        (folder / f"mixed_{number}.py").write_text(MIXED.format(line=line))
    command = (
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(ROOT / ".mypy_cache/clocks"),
    )
    said = subprocess.run(
        (*command, *map(str, sorted(folder.iterdir()))), cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    return {
        line: next((each for each in said.splitlines() if f"mixed_{number}.py" in each and "error" in each), "")
        for number, line in enumerate(lines)
    }


def test_moments_and_quantities_do_not_mix(refusals: dict[str, str]) -> None:
    assert [line for line, refusal in refusals.items() if not refusal] == [
        "seconds: float = unix_time() - unix_time()",
        "later = monotonic_time() + 5.0 > monotonic_time()",
        "total: float = Joules(5.0) + Joules(6.0)",
    ]


def test_moments_and_quantities_cost_nothing() -> None:
    assert type(clock.unix_time()) is type(clock.monotonic_time()) is float
    assert type(units.Fraction(0.5)) is type(units.Joules(1)) is float


def test_only_the_clock_asks_the_clocks() -> None:
    """A call of `time.time` answers a float, which the type checker cannot tell from any other number."""
    calls = re.compile(r"\btime\.(time|monotonic)\b")
    users = {path.relative_to(EXPORTER).as_posix() for path in EXPORTER.rglob("*.py") if calls.search(path.read_text())}

    # The tools write dates that leave the process, and invent time.
    assert {each for each in users if not each.startswith("tools/")} == {"core/clock.py"}


def test_attribution_and_host_measure_on_the_monotonic_clock() -> None:
    """A wall clock set back an hour must not stop them for an hour."""
    users = [
        path.relative_to(EXPORTER).as_posix()
        for folder in ("attribution", "host", "progress", "driver")
        for path in (EXPORTER / folder).rglob("*.py")
        if re.search(r"\b(unix_time|UnixClock)\b", path.read_text())
    ]

    # A question about a job is dated as the job's file is; where the clock is set back, the next round asks again.
    dates = ["attribution/slurm/reconciliation.py", "driver/nvml/events.py"]
    assert sorted(users) == dates, "whatever lasts is measured with monotonic_time"
