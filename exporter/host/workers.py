"""The loader workers of a process: children of any of its threads, and what these have started.

A fork server (Python 3.14 starts workers by one) and a shell stand in between.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from exporter.host.text import natural, read_text

_WHOLE_SCANS = 3
"""In one scan of so many all threads are asked for children, in the others those that had some and the main thread."""


class Workers:
    """Of one process, scan after scan."""

    __slots__ = ("_parents", "_scans")

    def __init__(self) -> None:
        self._scans = 0
        self._parents: Collection[str] = ()
        """Threads that had children when all were asked."""

    def of(self, procfs: str, threads: Sequence[str], most: int, apart: Container[int | None] = ()) -> Sequence[str]:
        """Their pids, as /proc names them. `threads` stand below procfs, the main thread first.

        Not those `apart`, with what they have started: GPU processes speak for themselves.
        """
        whole = self._scans < 2 or not self._scans % _WHOLE_SCANS  # noqa: PLR2004 - workers start soon after a process
        self._scans += 1
        asked = threads if whole else [place for place in threads if place is threads[0] or place in self._parents]
        found = {place: _children(procfs, place, apart) for place in asked}
        if whole:
            self._parents = frozenset(place for place, children in found.items() if children)
        own = [child for children in found.values() for child in children][:most]
        return [*own, *[each for child in own for each in _children(procfs, f"{child}/task/{child}", apart)]]


def _children(procfs: str, thread: str, apart: Container[int | None]) -> Sequence[str]:
    return [child for child in read_text(f"{procfs}/{thread}/children").split() if natural(child) not in apart]
