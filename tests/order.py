"""In which order and in which pieces pytest-xdist hands out the tests: a file as a whole, what takes long first."""

from __future__ import annotations

from typing import Any

import pytest

LONGEST = ("alerting", "slurm", "dashboards", "report", "diagnosis", "packages")
"""Groups that take a minute and more, most of it waiting: none of them may begin when all others have ended."""


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Of `--dist loadgroup`; None leaves another to pytest-xdist."""
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # noqa: PLC0415 - not there where a test runs without pytest-xdist

    class FileScheduling(LoadGroupScheduling):
        """Tests without a group stay with those of their file: what a file makes once is made by one worker."""

        def _split_scope(self, nodeid: str) -> str:
            group: str = super()._split_scope(nodeid)
            return group if group != nodeid else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # by number of tests, which says little of how long they take
    return FileScheduling(config, log)


def rank(item: pytest.Item, *, waits: bool) -> int:
    """The place of a test's file or group: the lower, the earlier it begins."""
    groups = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
    places = [LONGEST.index(group) for group in groups if group in LONGEST]
    if places:
        return min(places)
    return len(LONGEST) + (0 if groups else 1 if waits else 2)
