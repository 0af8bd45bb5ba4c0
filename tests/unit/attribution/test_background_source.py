"""A source that is asked in the background: a question that stays open is a failure of the source."""

from __future__ import annotations

import threading

from exporter.attribution.background_source import HANGS_SECONDS, BackgroundSource


def test_question_that_stays_open_is_a_failure_whatever_was_answered_before() -> None:
    asked, gate, now = threading.Event(), threading.Event(), [0.0]

    def ask() -> int:
        asked.set()
        gate.wait(20)
        return 1

    source = BackgroundSource(ask, 0, name="source", interval=lambda _: 1.0, clock=lambda: now[0])
    source.start()
    try:
        assert asked.wait(20)
        assert not source.health("source", HANGS_SECONDS + 1.0).success
        assert source.health("source", HANGS_SECONDS + 1.0).age >= HANGS_SECONDS
    finally:
        gate.set()
        source.stop()
