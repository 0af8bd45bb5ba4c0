"""Busy seconds through the real driver binding: the fake library plays each kind of sample buffer under each load."""

from __future__ import annotations

from collections.abc import Callable

from tests.bench.sample_buffers import BUFFERS, LOADS
from tests.fake_nvml.fixture import FakeNvml

PROGRAM = """
import os
from pathlib import Path
from tests.bench.sample_buffers import measure, scenario_of
from tests.fake_nvml.scenario import Scenario

for cell, found in measure(Scenario(Path(os.environ["FAKE_NVML_SCENARIO"]), scenario_of())).items():
    print(*cell, *found, sep="|")
"""


def test_busy_seconds_are_within_a_point_for_each_buffer_and_load(fake_nvml: Callable[..., FakeNvml]) -> None:
    rows = [line.split("|") for line in fake_nvml().python(PROGRAM, timeout=300).splitlines()]

    assert len(rows) == len(BUFFERS) * len(LOADS)
    assert [row for row in rows if abs(float(row[2])) > 1.0 or float(row[3]) > 5.0] == []
