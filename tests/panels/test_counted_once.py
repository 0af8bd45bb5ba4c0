"""Every panel answers the same where a second job scrapes the nodes, and a second replica evaluates the rules."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

from tests.contract.dashboards.reading import NAMES
from tests.e2e.dashboards.history import JOB, Span
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import Archive, ask_at
from tests.panels.series import END, LOOKBACK, SHOWN, WRITTEN
from tests.panels.truth import choices

pytestmark = pytest.mark.xdist_group("panels")

COARSE = Span(SHOWN.start, SHOWN.end, 600)


@pytest.fixture(scope="module")
def twice(archive: Archive) -> Iterator[str]:
    """With the series of a second job, the alerts that fire for them too, and what a second replica recorded."""
    with tempfile.TemporaryDirectory(prefix="gpu-twice-") as folder:
        both = Archive(Path(folder), WRITTEN, LOOKBACK)
        copytree(archive.data, both.data, ignore=ignore_patterns("wal", "chunks_head", "lock", "queries.active"))
        again = both.folder / "again.om"
        with again.open("w") as out:
            for name in ("cluster.om", "alerts.om"):
                out.writelines(_again((archive.folder / name).read_text()))
            for rules in ("alerts.om", *sorted(path.name for path in archive.folder.glob("layer*.om"))):
                out.writelines(_of_replica((archive.folder / rules).read_text()))
            out.write("# EOF\n")
        both.add(again)
        with both.served() as found:
            yield found


def _again(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if f'job="{JOB}"' in line:
            yield line.replace(f'job="{JOB}"', 'job="monitoring/again"')


def _of_replica(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            yield line.replace("{", '{prometheus_replica="b",', 1).replace(",}", "}", 1)


@pytest.mark.parametrize("name", ["gpu_up", "node:gpu_up:count"])
def test_second_job_and_replica_are_there(url: str, twice: str, name: str) -> None:
    one, other = (len(ask_at(each, name, END)) for each in (url, twice))

    assert other == 2 * one > 0


@pytest.mark.parametrize("name", NAMES)
def test_panel_of_series_scraped_and_recorded_twice_counts_them_once(url: str, twice: str, name: str) -> None:
    one, other = (dict(Reader(each, COARSE, choices().get(name, {})).asked(name)) for each in (url, twice))

    assert sum(map(len, one.values())) > 0
    assert [query for query in one if not _same(one[query], other[query])] == []


def _same(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """But for the order of series, and of sums."""
    found, wanted = ({frozenset(row["metric"].items()): _values(row) for row in each} for each in (rows, others))
    return found.keys() == wanted.keys() and all(
        len(found[key]) == len(wanted[key])
        and all(math.isclose(one, other, rel_tol=1e-9) for one, other in zip(found[key], wanted[key], strict=True))
        for key in found
    )


def _values(row: dict[str, Any]) -> list[float]:
    points = [row["value"]] if "value" in row else row["values"]
    return [float(number) for point in points for number in point]
