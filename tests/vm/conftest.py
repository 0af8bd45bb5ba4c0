"""One machine for all checks of a run: they use it one after the other, and leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.vm import site
from tests.vm.machine import Machine, machine


@pytest.fixture(scope="session")
def vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    scratch = tmp_path_factory.mktemp("vm")
    given = scratch / "in"
    given.mkdir()
    site.prepare(given, scratch)
    with machine(given, scratch) as booted:
        booted.run(site.INSTALL, seconds=site.INSTALL_SECONDS)
        yield booted
