"""The looks that take the place of passes on a node where nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from exporter.collectors.base import Seen
from exporter.core.clock import NEVER, MonotonicTime
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
        self._counted: tuple[tuple[float, Found], ...] = ()
        """Since the last pass: each look with the seconds it stands for."""

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
        self._counted = (*self._counted, (now - self.at, found))
        self.at = now

    def seen(self) -> Callable[[str], Seen]:
        """What adds up what was found since the last pass, by uuid."""
        return partial(_seen, self._counted)

    def passed(self, at: MonotonicTime) -> None:
        """A pass has read the GPUs."""
        self.at, self._counted = at, ()


def _seen(looks: Sequence[tuple[float, Found]], uuid: str) -> Seen:
    return counted([(seconds, found[uuid]) for seconds, found in looks if uuid in found])
