"""The status page, drawn once for each snapshot however often it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from exporter.sampling.snapshot import Snapshot


class OncePerSnapshot:
    """Belongs to the one thread that draws status pages."""

    def __init__(self, snapshot: Callable[[], Snapshot], draw: Callable[[Snapshot], str]) -> None:
        self._snapshot = snapshot
        self._draw = draw
        self._kept: tuple[Snapshot, str] | None = None

    def page(self) -> str:
        snapshot = self._snapshot()
        if self._kept is None or self._kept[0] is not snapshot:
            self._kept = (snapshot, self._draw(snapshot))
        return self._kept[1]
