"""Flags to set next time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.summary import flags
from tests.unit.summaries.reports import GIB, JOB, device, report

MODEST = replace(JOB, memory_bytes=12 * GIB, cpus=2, time_limit=5400.0)


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (MODEST, ()),
        (replace(MODEST, memory_bytes=64 * GIB), ("--mem=11G",)),
        (replace(MODEST, memory_bytes=64 * GIB, nodes=4), ()),
        (replace(MODEST, cpus=16), ("--cpus-per-gpu=1",)),
        (replace(MODEST, time_limit=86400.0), ("--time=01:15:00",)),
        (replace(JOB, state="FAILED"), ()),
        (replace(JOB, state="TIMEOUT"), ()),
        (replace(MODEST, memory_bytes=None, cpu_seconds=None, time_limit=None), ()),
    ],
)
def test_only_what_was_much_too_much_is_named(job: AccountedJob, expected: tuple[str, ...]) -> None:
    assert flags(job, report()) == expected


def test_gpus_on_which_nothing_ever_ran() -> None:
    assert flags(MODEST, report(device(0, 0.5), device(1, 0.0))) == ("--gpus=1",)
    assert flags(MODEST, report(device(0, 0.0), device(1, 0.0))) == ()
    unseen = replace(device(1, 0.0), hours={"unobserved": 1.0})
    assert flags(MODEST, report(device(0, 0.5), unseen)) == ()
