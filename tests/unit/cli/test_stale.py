"""Gauges stay until the next cycle can have come, however far apart cycles are."""

from __future__ import annotations

import pytest

from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.daemon.assembly import pacing, stale_seconds
from exporter.daemon.config import DaemonConfig


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ((), 10.0),
        (("--sample.interval", "5s"), 10.0),
        (("--sample.interval", "15s"), 27.0),
        (("--sample.interval", "1m"), 108.0),
        (("--sample.interval", "15s", "--sample.stale", "10s"), 27.0),
        (("--sample.interval", "15s", "--sample.stale", "27s"), 27.0),
        (("--sample.stale", "1.8s"), 1.8),
        (("--sample.interval", "500ms", "--sample.stale", "900ms"), 0.9),
    ],
)
def test_default_grows_with_the_interval(given: tuple[str, ...], seconds: float) -> None:
    settings = load(DaemonConfig, given, {})

    assert stale_seconds(settings.sample) == seconds
    assert pacing(settings.sample).stale == seconds


@pytest.mark.parametrize("given", [("--sample.stale", "1.7s"), ("--sample.interval", "15s", "--sample.stale", "26s")])
def test_one_that_does_not_reach_to_the_next_cycle_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"--sample\.stale: expected at least"):
        stale_seconds(load(DaemonConfig, given, {}).sample)


@pytest.mark.parametrize(("interval", "seconds"), [("1s", 0.8), ("500ms", 0.4), ("15s", 12.0)])
def test_deadline_of_a_cycle_is_four_fifths_of_the_interval(interval: str, seconds: float) -> None:
    assert pacing(load(DaemonConfig, ("--sample.interval", interval), {}).sample).deadline == seconds
