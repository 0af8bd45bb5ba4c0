"""When passes are made, and how long their readings are shown: options that must fit each other."""

from __future__ import annotations

from exporter.config.option import ConfigError
from exporter.sampling.config import STALE_SECONDS, SamplingConfig
from exporter.sampling.sampler import Pacing

_DEADLINE_INTERVALS = 0.8
"""What a pass may wait for the GPUs: it has to end before the next one."""


def pacing(config: SamplingConfig) -> Pacing:
    """Raises ConfigError."""
    return Pacing(config.interval, _deadline_seconds(config), stale_seconds(config))


def _deadline_seconds(config: SamplingConfig) -> float:
    return _DEADLINE_INTERVALS * config.interval


def stale_seconds(config: SamplingConfig) -> float:
    """Age at which a gauge vanishes. It has to reach to the next pass: the default does, by itself."""
    reach: float = round(config.interval + _deadline_seconds(config), 6)
    if config.stale < reach and config.stale != STALE_SECONDS:
        # Every gauge would vanish, and the node not be ready, between two passes.
        raise ConfigError(
            f"--sample.stale: expected at least 1.8 times --sample.interval ({reach:g}s), got {config.stale:g}s"
        )
    return max(config.stale, reach)
