"""Who was not expected has a pass made: from the page that is asked for to the thread of the passes."""

from __future__ import annotations

import queue

from exporter.config import load as config
from exporter.daemon import assembly
from exporter.sampling.snapshot import Snapshot

HOURLY = ("--simulate", "1xH200:training", "--sample.interval", "1h")


def test_a_pass_is_made_for_who_asks_between_two() -> None:
    published: queue.Queue[Snapshot] = queue.Queue()
    options = [*HOURLY, "--sample.deadline", "1m"]
    exporter = assembly.assemble(config.load(options, {}, config.options()), published.put)
    exporter.start()
    try:
        assert published.get(timeout=60).status.passes == 1
        exporter.renew()

        assert exporter.snapshot.status.passes == 2
    finally:
        exporter.stop()


def test_who_asks_waits_for_half_of_what_a_pass_may_take() -> None:
    """A scraper may wait no longer than a second, and a pass that meets a slow driver takes most of one."""
    waited: list[float] = []
    options = [*HOURLY, "--sample.deadline", "0.6s"]
    exporter = assembly.assemble(config.load(options, {}, config.options()), lambda _: None)
    exporter._loop.tick_now = waited.append  # type: ignore[method-assign]
    exporter.renew()

    assert waited == [0.3]
