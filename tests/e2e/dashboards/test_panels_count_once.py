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
from tests.e2e.dashboards.history import JOB, Span, write_history
from tests.e2e.dashboards.nodes import nodes
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import Archive, ask_at

pytestmark = pytest.mark.xdist_group("dashboards")

END = 1_789_999_200 - 120
SPAN = Span(END - 40 * 60, END, 120)
COARSE = Span(SPAN.start, SPAN.end, 600)
NODES = {"k8s-05", "k8s-10", "hpc-07", "hpc-14"}
"""A GPU that is hot, memory that fails, ranks that wait for one, a link that is down."""
HOT = {"instance": "k8s-05", "gpu": "1"}


@pytest.fixture(scope="module")
def once() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory(prefix="gpu-once-") as folder:
        archive = Archive(Path(folder), SPAN)
        chosen = tuple(node for node in nodes() if node.instance in NODES)
        archive.add(write_history(chosen, SPAN, archive.folder))
        archive.evaluate()
        yield archive


@pytest.fixture(scope="module")
def twice(once: Archive) -> Iterator[Archive]:
    """With the series of the second job, the alerts that fire for them too, and what a second replica recorded."""
    with tempfile.TemporaryDirectory(prefix="gpu-twice-") as folder:
        archive = Archive(Path(folder), SPAN)
        copytree(once.data, archive.data, ignore=ignore_patterns("wal", "chunks_head", "lock", "queries.active"))
        again = archive.folder / "again.om"
        with again.open("w") as out:
            for name in ("history.om", "alerts.om"):
                out.writelines(_again((once.folder / name).read_text()))
            for rules in ("alerts.om", *sorted(path.name for path in once.folder.glob("layer*.om"))):
                out.writelines(_of_replica((once.folder / rules).read_text()))
            out.write("# EOF\n")
        archive.add(again)
        yield archive


def _again(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if f'job="{JOB}"' in line:
            yield line.replace(f'job="{JOB}"', 'job="monitoring/again"')


def _of_replica(text: str) -> Iterator[str]:
    for line in text.splitlines(keepends=True):
        if not line.startswith("#"):
            yield line.replace("{", '{prometheus_replica="b",', 1).replace(",}", "}", 1)


@pytest.fixture(scope="module")
def urls(once: Archive, twice: Archive) -> Iterator[tuple[str, str]]:
    with once.served() as one, twice.served() as other:
        yield one, other


@pytest.mark.parametrize("name", ["gpu_up", "node:gpu_up:count"])
def test_the_second_job_and_replica_are_there(urls: tuple[str, str], name: str) -> None:
    one, other = (len(ask_at(url, name, SPAN.end)) for url in urls)

    assert other == 2 * one > 0


@pytest.mark.parametrize("name", NAMES)
def test_no_panel_counts_twice_what_two_jobs_scrape_or_two_replicas_record(urls: tuple[str, str], name: str) -> None:
    chosen = HOT if name in {"node", "gpu"} else {}
    one, other = (dict(Reader(url, COARSE, chosen).asked(name)) for url in urls)

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
