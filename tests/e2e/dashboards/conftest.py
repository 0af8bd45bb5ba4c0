"""A Prometheus on the known cluster, made once for all files of tests that ask what panels say of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.dashboards.known import write
from tests.e2e.dashboards.truth import SPAN
from tests.e2e.dashboards.tsdb import PRICES, Archive, rising


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gpu-truth-") as folder:
        archive = Archive(Path(folder), SPAN, prices=rising(PRICES, (SPAN.start + SPAN.end) / 2))
        archive.add(write(SPAN, archive.folder / "known.om"))
        archive.evaluate()
        with archive.served() as found:
            yield found
