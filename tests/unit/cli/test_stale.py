"""Gauges stay until the next pass can have come, however far apart passes are."""

from __future__ import annotations

import pytest

from exporter.cli.assembly import pacing, stale_seconds
from exporter.config import load as config
from exporter.config.option import ConfigError


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ((), 10.0),
        (("--sample.interval", "9.2s"), 10.0),
        (("--sample.interval", "15s"), 15.8),
        (("--sample.interval", "15s", "--sample.deadline", "5s"), 20.0),
        (("--sample.interval", "1h"), 3600.8),
        (("--sample.interval", "15s", "--sample.stale", "10s"), 15.8),
        (("--sample.interval", "15s", "--sample.stale", "15.8s"), 15.8),
        (("--sample.stale", "1.8s"), 1.8),
    ],
)
def test_default_grows_with_the_interval(given: tuple[str, ...], seconds: float) -> None:
    settings = config.load(given, {}, config.options())

    assert stale_seconds(settings) == seconds
    assert pacing(settings).stale == seconds


@pytest.mark.parametrize("given", [("--sample.stale", "1.7s"), ("--sample.interval", "15s", "--sample.stale", "15s")])
def test_one_that_does_not_reach_to_the_next_pass_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match=r"--sample\.stale: expected at least"):
        stale_seconds(config.load(given, {}, config.options()))
