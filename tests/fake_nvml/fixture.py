"""The pytest fixture that makes a fake driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.fake_nvml.build import NEWEST, build
from tests.fake_nvml.scenario import Scenario, Value, node

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class FakeNvml:
    """A fake driver: start programs with `environment`, change what it answers with `scenario`."""

    scenario: Scenario
    environment: Mapping[str, str]
    log: Path
    """Each driver call a line: the function, and the GPU where it is about one."""

    def python(self, code: str, timeout: float = 60) -> str:
        """What the code prints, run in an interpreter of its own: the library is looked up when one starts."""
        done = subprocess.run(
            [sys.executable, "-c", code], env=self.environment, capture_output=True, text=True, timeout=timeout,
            cwd=_ROOT, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def make_fake_nvml(
    folder: Path, values: Mapping[str, Value] | None = None, branch: str = NEWEST, without: Iterable[str] = ()
) -> FakeNvml:
    """A fake driver with its files in a folder: a node of two H100s with these changes."""
    scenario, log = folder / "scenario", folder / "calls"
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(build(branch, without)),
        "FAKE_NVML_SCENARIO": str(scenario),
        "FAKE_NVML_LOG": str(log),
    }
    return FakeNvml(Scenario(scenario, {**node(), **(values or {})}), environment, log)


@pytest.fixture
def fake_nvml(tmp_path: Path) -> Callable[..., FakeNvml]:
    """Makes a fake driver: of which branch, without which functions, with which changes to a node of two H100s."""
    return partial(make_fake_nvml, tmp_path)
