"""Progress carried from pass to pass: counters that survive a restarted program, until their workload is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from exporter.attribution.owner import OWNER_LABELS, Owner
from exporter.core.counters import NO_COUNTS, Counts, count, published
from exporter.core.families import Block, Type
from exporter.progress.families import PROGRESS_FAMILIES
from exporter.progress.progress import Reported

_WIDTH = len(OWNER_LABELS)


class ProgressCounters:
    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}
        self._last: tuple[Reported, Sequence[Block]] | None = None
        """What was reported where nobody reports, and the series of that."""

    def blocks(self, reported: Reported, owners: Iterable[Owner]) -> Sequence[Block]:
        """The series of what is reported now, and the counters of what was; only of these `owners`."""
        if self._last is not None and self._last[0] == reported:
            return self._last[1]
        blocks = tuple(self._made(reported, owners))
        quiet = not reported.owners and not any(_owned(counts) for counts in self._counts.values())
        self._last = (reported, blocks) if quiet else None
        return blocks

    def _made(self, reported: Reported, owners: Iterable[Owner]) -> Iterator[Block]:
        known = {owner.labels for owner in owners}
        for family in PROGRESS_FAMILIES:
            if family.type is Type.COUNTER:
                before = self._counts.get(family.name, NO_COUNTS)
                kept = before.only({each for each in before.raws if each[:_WIDTH] in known or len(each) < _WIDTH})
                counts = self._counts[family.name] = count(kept, family.by_labels(reported))
                columns = published(counts)
            else:
                columns = family.columns(reported)
            yield Block(family, (), columns)


def _owned(counts: Counts) -> bool:
    """Whether a workload's counter is among them."""
    return any(len(labels) >= _WIDTH for labels in counts.raws)
