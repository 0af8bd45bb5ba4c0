"""What the readings of the ledger keep from cycle to cycle."""

from __future__ import annotations

from exporter.collectors import UTILIZATION
from exporter.collectors.sample_integral import Integral
from exporter.collectors.utilization import Utilization
from exporter.core.clock import MonotonicTime
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import CachedReading, TargetState
from exporter.sampling.readings import LedgerReadings
from tests.unit.sampling.scripted import Scripted


def device(minor: int) -> Scripted:
    found = Scripted(0, lambda _: None)
    found.minor = minor
    return found


def busy_for(seconds: float, at: float) -> Gpu:
    """A GPU that was busy for so many seconds in all, read at that moment."""
    reading = Utilization(None, None, Integral(total=seconds), None)
    cached = CachedReading(UTILIZATION, reading, MonotonicTime(at))
    gpu = device(0)
    return Gpu(gpu, {gpu.uuid: TargetState({"utilization": cached})}, answered=MonotonicTime(at), reading=True)


def test_busy_time_is_counted_from_read_to_read_and_anew_after_a_reset() -> None:
    readings = LedgerReadings()

    counted = [
        readings._counted(busy_for(*each), MonotonicTime(each[1])) for each in ((5.0, 10.0), (6.5, 12.0), (0.5, 16.0))
    ]

    assert counted == [None, (1.5, 2.0, 0.0), (0.5, 4.0, 0.0)]
