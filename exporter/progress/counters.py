"""Progress carried from pass to pass: counters that survive a restarted program, until their workload is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from exporter.attribution.owner import OWNER_LABELS, Owner
from exporter.exposition.snapshot import Block
from exporter.metrics.counters import NO_COUNTS, Counts, count, published
from exporter.metrics.family import Type
from exporter.progress.families import PROGRESS_FAMILIES
from exporter.progress.progress import Reported


class ProgressCounters:
    def __init__(self) -> None:
        self._counts: dict[str, Counts] = {}

    def blocks(self, reported: Reported, owners: Iterable[Owner]) -> Iterator[Block]:
        """The series of what is reported now, and the counters of what was; only of these `owners`."""
        known = {owner.labels for owner in owners}
        width = len(OWNER_LABELS)
        for family in PROGRESS_FAMILIES:
            if family.type is Type.COUNTER:
                before = self._counts.get(family.name, NO_COUNTS)
                kept = before.only({each for each in before.raws if each[:width] in known or len(each) < width})
                counts = self._counts[family.name] = count(kept, family.by_labels(reported))
                columns = published(counts)
            else:
                columns = family.columns(reported)
            yield Block(family, (), columns)
