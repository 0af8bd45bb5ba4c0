"""The known cluster in the states in which a panel has nothing to show: no rules, young rules, silent nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.dashboards.history import Span
from tests.e2e.dashboards.tsdb import Archive
from tests.panels.series import END, LAST_SCRAPE, LOOKBACK, WRITTEN, write

HALF = ("s1", "k3")
"""Half of the nodes. Nothing was heard of k3 for an hour anyway."""
ALL = ("s1", "k1", "k2", "k3")
SILENT_FROM = END - 20 * 60
_LINE = re.compile(r'(?P<name>\w+)\{.*instance="(?P<instance>[^"]*)".*\} \S+ (?P<at>\d+)')


@contextmanager
def without_rules(folder: Path) -> Iterator[str]:
    """URL of a Prometheus that scrapes the cluster and evaluates nothing."""
    archive = Archive(folder, WRITTEN, LOOKBACK)
    archive.add(write(folder / "cluster.om"))
    with archive.served() as url:
        yield url


@contextmanager
def with_young_rules(folder: Path) -> Iterator[str]:
    """URL of a Prometheus whose rules were evaluated twice, a minute apart."""
    archive = Archive(folder, Span(LAST_SCRAPE - 60, LAST_SCRAPE, 60), LOOKBACK)
    archive.add(write(folder / "cluster.om"))
    archive.evaluate()
    with archive.served() as url:
        yield url


@contextmanager
def with_silent(folder: Path, nodes: tuple[str, ...]) -> Iterator[str]:
    """URL of a Prometheus with all rules, whose scrapes of `nodes` fail since SILENT_FROM."""
    text = write(folder / "cluster.om")
    lines = text.read_text().splitlines(keepends=True)
    text.write_text("".join(_silenced(line, nodes) for line in lines))
    archive = Archive(folder, WRITTEN, LOOKBACK)
    archive.add(text)
    archive.evaluate()
    with archive.served() as url:
        yield url


def _silenced(line: str, nodes: tuple[str, ...]) -> str:
    found = _LINE.match(line)
    if found is None or found["instance"] not in nodes or int(found["at"]) < SILENT_FROM:
        return line
    return re.sub(r"\} \S+ ", "} 0 ", line) if found["name"] == "up" else ""
