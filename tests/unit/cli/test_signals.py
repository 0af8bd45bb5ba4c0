"""What signals do to the exporter that serves."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from exporter.daemon.serve import _signal_events

NUMBERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture(autouse=True)
def handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_hangup_reads_the_web_configuration_and_ends_nothing() -> None:
    stopping, reload = _signal_events()

    signal.raise_signal(signal.SIGHUP)

    assert (stopping.is_set(), reload.is_set()) == (False, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_is_asked_for_by(number: signal.Signals) -> None:
    stopping, reload = _signal_events()

    signal.raise_signal(number)

    assert (stopping.is_set(), reload.is_set()) == (True, False)
