"""A status page is drawn once for each snapshot."""

from __future__ import annotations

from exporter.sampling.snapshot import Snapshot
from exporter.web.app import CachedStatusPage


def test_page_is_drawn_again_only_for_another_snapshot() -> None:
    now, drawn = [Snapshot()], list[Snapshot]()
    kept = CachedStatusPage(lambda: now[0], lambda snapshot: drawn.append(snapshot) or str(len(drawn)))

    told = [kept.page(), kept.page()]
    now[0] = Snapshot()
    assert [*told, kept.page()] == ["1", "1", "2"]
