"""A fault that somebody could make any day: a small change of one file, and the tests that must notice."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """`old` stands once in `file`; with `new` in its place one of `tests/TESTS` fails."""

    file: str
    """In exporter/, or in dashboards/ and with that in its name."""
    old: str
    new: str
    tests: str

    @property
    def path(self) -> str:
        return self.file if self.file.startswith("dashboards/") else f"exporter/{self.file}"
