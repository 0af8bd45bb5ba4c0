"""When a workload held its GPUs, found in a long range."""

from __future__ import annotations

import pytest

from exporter.tools.report.subject import allocated_span
from tests.unit.report.answers import NOW
from tests.unit.report.scripted import Scripted

DAY = 86_400.0


@pytest.mark.parametrize("days", [0.01, 0.5, 3.0, 15.0, 29.0])
def test_times_of_a_long_job_are_as_exact_as_those_of_a_short_one(days: float) -> None:
    ended = NOW - 0.37 * DAY
    began = ended - days * DAY
    span = allocated_span(Scripted({}, allocated=(began, ended)), 'slurm_job="1"', 30 * DAY, NOW)

    assert span
    assert span.start == pytest.approx(began, abs=2)
    assert span.end == pytest.approx(ended, abs=2)
    assert span.until == pytest.approx(ended, abs=3)
