"""When passes are made, and how long their readings are shown: options that must fit each other."""

from __future__ import annotations

from exporter.config.load import Config
from exporter.config.option import DEADLINE, STALE, ConfigError
from exporter.sampling.sampler import Pacing

_SHARE = 0.8
"""Of a short interval, what a pass may wait for the GPUs where no deadline was asked for: as of the default one."""


def pacing(config: Config) -> Pacing:
    """Raises ConfigError."""
    return Pacing(config["sample.interval"], deadline_seconds(config), stale_seconds(config))


def deadline_seconds(config: Config) -> float:
    """Time one pass waits for the GPUs. It has to end before the next pass: the default does, by itself."""
    interval, deadline = config["sample.interval"], config["sample.deadline"]
    if deadline <= interval:
        return float(deadline)
    if deadline != DEADLINE:
        raise ConfigError(f"--sample.deadline: expected at most --sample.interval ({interval:g}s), got {deadline:g}s")
    return float(_SHARE * interval)


def stale_seconds(config: Config) -> float:
    """Age at which a gauge vanishes. It has to reach to the next pass: the default does, by itself."""
    stale: float = config["sample.stale"]
    reach: float = round(config["sample.interval"] + deadline_seconds(config), 6)
    if stale < reach and stale != STALE:  # every gauge would vanish, and the node not be ready, between two passes
        raise ConfigError(
            "--sample.stale: expected at least --sample.interval and --sample.deadline together "
            f"({reach:g}s), got {stale:g}s"
        )
    return max(stale, reach)
