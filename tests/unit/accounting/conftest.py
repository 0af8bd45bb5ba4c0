"""The database of the accounting service, closed after each test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.tools.report.accounting.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with contextlib.closing(Database(tmp_path / "service.sqlite")) as made:
        yield made
