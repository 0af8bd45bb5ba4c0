"""A Prometheus on the cluster whose truth is known, and what it answers to every panel."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.dashboards.reading import NAMES
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import Archive
from tests.panels.asked import Answered, answered
from tests.panels.series import LOOKBACK, SHOWN, WRITTEN, write, write_week_before
from tests.panels.truth import choices


@pytest.fixture(scope="session")
def archive() -> Iterator[Archive]:
    with tempfile.TemporaryDirectory(prefix="gpu-panels-") as folder:
        found = Archive(Path(folder), WRITTEN, LOOKBACK)
        found.add(write(found.folder / "cluster.om"))
        found.add(write_week_before(found.folder / "week_before.om"))
        found.evaluate()
        yield found


@pytest.fixture(scope="session")
def url(archive: Archive) -> Iterator[str]:
    with archive.served() as found:
        yield found


@pytest.fixture(scope="session")
def answers(url: str) -> dict[tuple[str, str], Answered]:
    """By board and panel."""
    found: dict[tuple[str, str], Answered] = {}
    for board in dict.fromkeys((*NAMES, *choices())):
        chosen = dict(choices().get(board, {}))
        shown = replace(SHOWN, end=SHOWN.end - int(chosen.pop("ago", "0")))
        reader = Reader(url, shown, chosen)
        for each in answered(reader, board, board.partition(" @ ")[0]):
            found[each.board, each.title] = each
    return found
