"""Samples that the driver takes by itself: buffers of utilization, power and clocks, and utilization by process."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from exporter.driver.interface import Record
from exporter.tools.simulator.behaviour import Channel
from exporter.tools.simulator.gpu import Gpu, Target

PERIOD_SECONDS = 1 / 6
"""Seconds between samples."""
DEPTH = 100
"""Samples kept."""
_PROCESS_DEPTH = 10
"""Seconds of utilization by process kept, one sample a second."""

_UTILIZATION: Mapping[int, Channel | None] = {
    1: Channel.BUSY,
    2: Channel.MEMORY_BUSY,
    3: Channel.CODEC,
    4: Channel.CODEC,
    8: None,
    9: None,
}
"""Sample type to what it is the mean of; None is never used."""


def samples(gpu: Gpu, epoch: float, time: float, type_: int, after: int) -> tuple[tuple[int, float], ...] | None:
    """(Timestamp µs, value) newer than `after`, oldest first; None where there is no such buffer.

    `epoch` is the start in Unix seconds, `time` seconds since then.
    """
    level = _sample_level(gpu, epoch, type_)
    if level is None:
        return None
    newest = math.floor((epoch + time) / PERIOD_SECONDS)
    oldest = max(newest - DEPTH + 1, math.floor(after / 1e6 / PERIOD_SECONDS), math.ceil(epoch / PERIOD_SECONDS) + 1)
    stamped = ((round(number * PERIOD_SECONDS * 1e6), number) for number in range(oldest, newest + 1))
    return tuple([(stamp, level(number)) for stamp, number in stamped if stamp > after])


def _sample_level(gpu: Gpu, epoch: float, type_: int) -> Callable[[int], float] | None:
    """The value of the sample with a given number."""
    if type_ == 0:
        return lambda number: int(gpu.watts(number * PERIOD_SECONDS - epoch, PERIOD_SECONDS) * 1000)
    if type_ not in _UTILIZATION or gpu.mig:
        return None
    channel = _UTILIZATION[type_]
    track = gpu.targets[0].track

    def percent(number: int) -> int:
        """Rounded so that the samples' sum is right to one percent, however many there are."""
        if channel is None:
            return 0
        ends = (number * PERIOD_SECONDS - epoch, (number - 1) * PERIOD_SECONDS - epoch)
        now, before = (math.floor(track.total(channel, end) / PERIOD_SECONDS * 100 + 1e-6) for end in ends)
        return min(100, max(0, now - before))

    return percent


def process_samples(target: Target, epoch: float, time: float, after: int) -> tuple[Record, ...]:
    """Utilization of each process in each second, newer than `after` (µs)."""
    newest = math.floor(epoch + time)
    oldest = max(newest - _PROCESS_DEPTH + 1, math.floor(after / 1e6) + 1)
    found: list[Record] = []
    for second in range(oldest, newest + 1):
        then = second - epoch
        running = target.processes(then) if then > 0 else ()
        found += [_process_record(target, process.pid, process.share, second, then) for process in running]
    return tuple(found)


def _process_record(target: Target, pid: int, fraction: float, second: int, then: float) -> Record:
    def percent(channel: Channel) -> int:
        return round(100 * fraction * min(1.0, target.mean(channel, then, 1.0)))

    codec = percent(Channel.CODEC)
    return Record(
        pid=pid,
        timeStamp=second * 1_000_000,
        smUtil=percent(Channel.BUSY),
        memUtil=percent(Channel.MEMORY_BUSY),
        encUtil=codec,
        decUtil=codec,
        jpgUtil=0,
        ofaUtil=0,
    )


_MIB = 1024 * 1024
_GPM: Mapping[int, tuple[Channel, float]] = {
    1: (Channel.BUSY, 100.0),
    2: (Channel.SM, 100.0),
    3: (Channel.OCCUPANCY, 100.0),
    4: (Channel.INTEGER, 100.0),
    5: (Channel.TENSOR, 100.0),
    7: (Channel.TENSOR, 100.0),
    10: (Channel.DRAM, 100.0),
    12: (Channel.FP32, 100.0),
    13: (Channel.FP16, 100.0),
    20: (Channel.PCIE, 1 / _MIB),
    21: (Channel.PCIE, 1 / _MIB),
    30: (Channel.CODEC, 100.0),
    60: (Channel.NVLINK, 1 / _MIB),
    61: (Channel.NVLINK, 1 / _MIB),
}
"""GPM metric to its channel and the factor to its unit: percent, or MiB/s."""
_ZERO_GPM = frozenset({6, 9, 11})
_CYCLES: Mapping[int, Channel | None] = {
    248: None,
    249: Channel.SM,
    250: Channel.TENSOR,
    252: Channel.TENSOR,
    257: Channel.INTEGER,
    259: Channel.FP32,
    260: Channel.FP16,
}
"""Cumulative SM cycles since boot, driver 595 and newer; None is cycles elapsed."""
_CYCLES_SINCE = 595


def gpm(gpu: Gpu, target: Target, metrics: Any, before: float, time: float) -> dict[int, float]:
    """Means between two moments, by metric; what this GPU does not know is left out."""
    span = time - before
    found: dict[int, float] = {}
    for metric in metrics:
        if metric in _ZERO_GPM:
            found[metric] = 0.0
        elif metric in _GPM:
            channel, factor = _GPM[metric]
            advance = target.track.total(channel, time) - target.track.total(channel, before)
            found[metric] = advance / span * factor if factor != 100.0 else min(100.0, advance / span * factor)  # noqa: PLR2004
        elif metric in _CYCLES and gpu.branch >= _CYCLES_SINCE:
            active = _CYCLES[metric]
            found[metric] = gpu.model.clock * 1e6 * (time if active is None else target.track.total(active, time))
    return found
