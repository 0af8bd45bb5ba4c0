"""Gauges stay until the next pass can have come, however far apart passes are."""

from __future__ import annotations

import pytest

from exporter.config import load as config
from exporter.config.option import ConfigError
from exporter.daemon.pacing import pacing, stale_seconds


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
        (("--sample.interval", "500ms", "--sample.stale", "900ms"), 0.9),
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


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ((), 0.8),
        (("--sample.interval", "800ms"), 0.8),
        (("--sample.interval", "500ms"), 0.4),
        (("--sample.interval", "500ms", "--sample.deadline", "500ms"), 0.5),
        (("--sample.interval", "15s"), 0.8),
    ],
)
def test_default_deadline_shrinks_with_the_interval(given: tuple[str, ...], seconds: float) -> None:
    assert pacing(config.load(given, {}, config.options())).deadline == seconds


def test_a_deadline_after_the_next_pass_is_refused() -> None:
    settings = config.load(("--sample.interval", "500ms", "--sample.deadline", "600ms"), {}, config.options())

    with pytest.raises(ConfigError, match=r"--sample\.deadline: expected at most --sample\.interval \(0\.5s\)"):
        pacing(settings)
