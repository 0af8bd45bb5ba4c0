"""Lookups that take their time, hang or fail keep nobody waiting."""

from __future__ import annotations

import logging
import threading

import pytest

from exporter.core import lookup
from exporter.core.lookup import Lookup
from exporter.core.threads import Threads
from exporter.host.process import UserNames
from tests.attribution_kit.nodes import until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_quick_answer_is_there_at_once() -> None:
    found: Lookup[int, str] = Lookup("x", str)
    found.start(Threads())

    until(lambda: found.get(7) == "7")
    assert found.health() == (True, 0.0)
    found.stop()


def test_answer_that_takes_its_time_comes_later_and_others_are_not_waited_for() -> None:
    go, clock = threading.Event(), Clock()

    def ask(key: int) -> str:
        if key == 1:
            go.wait(20)
        return f"name{key}"

    names = UserNames(ask, clock=clock)
    names.start(Threads())

    assert names.name(1) == "1"
    clock.now += 1
    assert names.name(2) == "2"  # waits behind the first
    assert names.health() == (True, 1.0)
    clock.now += lookup.HANGS_SECONDS
    names.name(2)  # the first is left to its thread
    until(lambda: names.name(2) == "name2")
    health = names.health()
    assert health is not None
    assert not health[0]
    go.set()
    until(lambda: names.name(1) == "name1")
    assert names.health() == (True, 0.0)
    names.stop()


def test_only_so_many_questions_hang() -> None:
    go, clock, asked = threading.Event(), Clock(), list[int]()

    def ask(key: int) -> str | None:
        asked.append(key)
        go.wait(20)
        return None

    threads = Threads()
    found: Lookup[int, str] = Lookup("x", ask, clock=clock)
    found.start(threads)
    for key in range(20):
        found.get(key)
        until(lambda: found._asking is not None)
        clock.now += lookup.HANGS_SECONDS + 1

    assert len(threads.states()) <= 5
    go.set()
    until(lambda: found.health() == (True, 0.0))
    found.stop()


def test_question_is_left_to_its_thread_only_when_it_has_hung_for_long() -> None:
    go, clock = threading.Event(), Clock()
    clock.now = 1_000_000.0
    threads = Threads()
    found: Lookup[int, str] = Lookup("x", lambda _: str(go.wait(20)), clock=clock)
    found.start(threads)
    found.get(1)
    until(lambda: found._asking is not None)

    clock.now += lookup.HANGS_SECONDS - 0.1
    found.get(2)
    soon = set(threads.states())
    clock.now += 0.1
    found.get(3)

    assert (soon, set(threads.states())) == ({"x"}, {"x", "x-1"})
    go.set()
    until(lambda: found.get(1) == found.get(2) == found.get(3) == "True")
    until(lambda: set(threads.states()) == {"x-1"})  # the first has answered, and ends
    found.stop()
    until(lambda: not threads.states())


def test_what_is_being_asked_for_the_first_time_is_waited_for() -> None:
    go, clock, known = threading.Event(), Clock(), dict[int, str]()

    def ask(key: int) -> str | None:
        go.wait(20)
        return known.get(key)

    found: Lookup[int, str] = Lookup("x", ask, clock=clock)
    before = found.waits(1)
    found.start(Threads())
    found.get(1)
    until(lambda: found._asking is not None)
    asked, other = found.waits(1), found.waits(2)
    clock.now += lookup.HANGS_SECONDS
    found.get(2)  # the first is left to its thread

    assert (before, asked, other) == (False, True, False)
    assert found.waits(1)
    assert found.waits(2)
    go.set()
    until(lambda: not found.waits(1) and not found.waits(2))
    assert found.get(1) is None
    found.stop()


def test_what_was_not_known_is_asked_for_again_after_a_minute_and_not_before() -> None:
    clock, asked = Clock(), list[int]()
    clock.now = 1_000_000.0
    found: Lookup[int, str] = Lookup("x", asked.append, clock=clock)
    found.get(1)
    clock.now += 59.9
    found.get(1)
    before = list(asked)
    clock.now += 0.1
    found.get(1)

    assert (before, asked) == ([1], [1, 1])


def test_name_that_is_not_known_is_asked_for_again() -> None:
    clock, known = Clock(), dict[int, str]()
    names = UserNames(known.get, clock=clock)
    before = names.name(1)
    known[1] = "alice"
    soon = names.name(1)
    clock.now += 60

    assert (before, soon, names.name(1)) == ("1", "1", "alice")


def test_what_asking_raises_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    def ask(key: int) -> str:
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, str(key))

    with caplog.at_level(logging.DEBUG):
        assert UserNames(ask).name(17) == "17"
    assert [(each.levelno, each.message.partition("(")[0]) for each in caplog.records] == [
        (logging.DEBUG, "users: 17: UnicodeDecodeError")
    ]


def test_keys_that_are_gone_are_forgotten() -> None:
    found: Lookup[int, str] = Lookup("x", str)
    for key in range(10):
        found.get(key)
    found.keep({3})

    assert set(found._answers) == {3}


def test_of_too_many_answers_those_wanted_longest_ago_are_forgotten() -> None:
    asked: list[int] = []

    def answer(key: int) -> str:
        asked.append(key)
        return str(key)

    lookup: Lookup[int, str] = Lookup("users", answer, limit=3)
    for key in (0, 1, 0, 2, 0, 3, 0, 4, 0):
        assert lookup.get(key) == str(key)

    assert asked == [0, 1, 2, 3, 4]
