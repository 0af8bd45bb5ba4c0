"""Numbers, names and colours as a person reads them, where a step of the scale is and beside it."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable

import pytest

from exporter.tools.report import words
from exporter.tools.report.terminal import Colors, paint, progress_message

GIB = 1 << 30


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.title(""), ""),
        (words.title("wait_cpu"), "Waits for CPU"),
        (words.title("unused"), "GPUs not used"),
        (words.title("too_large"), "GPU too large"),
        (words.percent(None), "-"),
        (words.percent(0.0), "0 %"),
        (words.percent(0.994), "99 %"),
        (words.hours(None), "-"),
        (words.hours(0.0), "0.0 min"),
        (words.hours(0.99), "59.4 min"),
        (words.hours(1.0), "1.0 h"),
        (words.hours(12345.6), "12,345.6 h"),
        (words.span(0.4), "0 s"),
        (words.span(59), "59 s"),
        (words.span(60), "1 min"),
        (words.span(61), "1 min 1 s"),
        (words.span(3599), "59 min 59 s"),
        (words.span(86399), "23 h 59 min"),
        (words.span(86400), "1 d"),
        (words.span(90061), "1 d 1 h"),
        (words.energy(3.6e6), "1.0 kWh"),
        (words.energy(3.59e6), "997 Wh"),
        (words.energy(3.6e12), "1,000,000.0 kWh"),
        (words.gib(GIB / 2), "0.5 GiB"),
        (words.count(2.004), "2"),
        (words.count(2.006), "2.01"),
        (words.count(1.5), "1.50"),
        (words.count(1.996), "2"),
        (words.count(0.5), "0.50"),
        (words.count(0.005), "0.01"),
        (words.money(1234.5, "$"), "1,234.50 $"),
        (words.amount(0.12345), "0.123"),
        (words.amount(99.94), "99.9"),
        (words.amount(100.0), "100"),
        (words.amount(-12345.6), "-12,346"),
    ],
)
def test_words(said: str, expected: str) -> None:
    assert said == expected


def test_moment_is_of_the_machines_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert words.when(1_700_000_000.0) == "2023-11-15 00:13"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_colours_are_where_they_are_seen() -> None:
    assert Colors(colours=True)("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
    assert Colors(colours=True)("x") == "x"
    assert Colors(colours=False)("x", "bold") == "x"


@pytest.mark.parametrize(
    ("terminal", "no_colour", "term", "seen"),
    [
        (True, "", "xterm", True),
        (False, "", "xterm", False),
        (True, "1", "xterm", False),
        (True, "", "dumb", False),
    ],
)
def test_a_stream_that_shows_colours(
    terminal: bool,  # noqa: FBT001 - a column of the table above
    no_colour: str,
    term: str,
    seen: bool,  # noqa: FBT001 - another
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    monkeypatch.setenv("NO_COLOR", no_colour)
    monkeypatch.setenv("TERM", term)

    assert paint(stream).colours is seen


class Timer:
    """Rings when it is told to."""

    def __init__(self, after: float, ring: Callable[[], object]) -> None:
        self.after, self.ring = after, ring
        self.daemon, self.state = False, "new"

    def start(self) -> None:
        self.state = f"started, daemon {self.daemon}"

    def cancel(self) -> None:
        self.state = "cancelled"


def test_wait_is_not_told_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with progress_message("asking"):
        asked = True

    assert asked


def test_long_wait_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[Timer] = []
    said = io.StringIO()

    def timer(after: float, ring: Callable[[], object]) -> Timer:
        timers.append(Timer(after, ring))
        return timers[-1]

    monkeypatch.setattr(threading, "Timer", timer)
    monkeypatch.setattr(sys, "stderr", said)
    with progress_message("asking"):
        assert (timers[0].after, timers[0].state) == (2.0, "started, daemon True")
        timers[0].ring()

    assert (said.getvalue(), timers[0].state) == ("asking ...\n", "cancelled")
