"""The looks that take the place of passes on a node where nothing changes."""

from __future__ import annotations

from collections.abc import Mapping

from exporter.clock import NEVER, MonotonicTime
from exporter.collectors.base import NOTHING_SEEN, Seen
from exporter.sampling.look import UNKNOWN, Look, counted, same

Found = Mapping[str, Look]
"""One look at all GPUs, by uuid."""


class Looks:
    """What looks are compared with, and what they have found since the last pass. Belongs to the passes' thread."""

    def __init__(self) -> None:
        self._first: Found = {}
        """What the GPUs showed when they had become steady; nothing before they have."""
        self.at: MonotonicTime = NEVER
        """When the GPUs were last looked at, by a pass or shortly."""
        self.seen: Mapping[str, Seen] = {}
        """Since the last pass, by uuid."""

    @property
    def begun(self) -> bool:
        return bool(self._first)

    def begin(self, found: Found) -> None:
        """Compare with this look from now on."""
        self._first = found

    def end(self) -> None:
        self._first = {}

    def show_the_same(self, found: Found) -> bool:
        first = self._first
        return all(same(first.get(uuid, UNKNOWN), each) for uuid, each in found.items())

    def count(self, found: Found, now: MonotonicTime) -> None:
        """Nothing new was found, and no pass is made."""
        seconds, seen = now - self.at, self.seen
        self.seen = {uuid: counted(seen.get(uuid, NOTHING_SEEN), each, seconds) for uuid, each in found.items()}
        self.at = now

    def passed(self, at: MonotonicTime) -> None:
        """A pass has read the GPUs."""
        self.at, self.seen = at, {}
