"""A source that is asked in the background: a question that stays open is a failure of the source."""

from __future__ import annotations

import threading

from exporter.attribution.background_source import HANGS_SECONDS, BackgroundSource


def test_question_that_stays_open_is_a_failure_whatever_was_answered_before() -> None:
    asked, gate, now = threading.Event(), threading.Event(), [0.0]
    gate.set()

    def ask() -> int:
        asked.set()
        gate.wait(20)
        return 1

    source = BackgroundSource(ask, 0, name="source", interval=lambda _: 1e6, clock=lambda: now[0])
    source.ask_once()
    assert source.health("source", 1e6).success
    asked.clear()
    gate.clear()
    source.start()
    try:
        assert asked.wait(20)
        assert source.health("source", HANGS_SECONDS).success
        assert not source.health("source", HANGS_SECONDS + 0.1).success
        assert source.health("source", HANGS_SECONDS + 1.0).age == HANGS_SECONDS + 1.0
    finally:
        gate.set()
        source.stop()
