"""A source that is asked in the background: a question that stays open is a failure of the source."""

from __future__ import annotations

import logging
import threading

import pytest

from exporter.attribution.background_source import HANGS_SECONDS, BackgroundSource
from exporter.attribution.nomad.source import Agent, AgentPoller
from exporter.core.threads import Threads
from tests.attribution_kit.nodes import until


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


def test_answer_that_differs_is_a_change_and_a_failure_is_none() -> None:
    answers: list[int | OSError] = [0, 1, 1, OSError("silent"), 1, 2]

    def ask() -> int:
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    heard: list[int] = []
    source = BackgroundSource(
        ask, 0, name="source", interval=lambda _: 1e6, changed=lambda: heard.append(source.answer.value)
    )
    while answers:
        source.ask_once()

    assert heard == [1, 2]


def test_answer_that_nobody_foresaw_is_logged_once_with_the_name_of_the_source(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[int | Exception] = [1, KeyError("odd"), KeyError("odd"), 1, OSError("silent")]

    def ask() -> int:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    source = BackgroundSource(ask, 0, name="slurm", interval=lambda _: 1e6)
    with caplog.at_level(logging.INFO):
        while answers:
            source.ask_once()

    assert caplog.messages == ["slurm failed"]
    assert source.answer.error == "silent"


def test_thread_waits_between_two_questions_and_does_not_fail() -> None:
    asked: list[int] = []
    threads = Threads()
    source = BackgroundSource(lambda: asked.append(1), None, name="source", interval=lambda _: 1e6)
    source.start(threads)
    until(lambda: len(asked) == 1)
    source.wake()
    until(lambda: len(asked) == 2)

    assert threads.states()["source"].failures == 0
    source.stop()


def test_thread_of_nomad_has_its_name_in_the_series_of_threads() -> None:
    threads, nomad = Threads(), AgentPoller(Agent("http://127.0.0.1:1"))
    nomad.start(threads)

    assert set(threads.states()) == {"nomad"}
    nomad.stop()
