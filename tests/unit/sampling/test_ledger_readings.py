"""What the readings of the ledger keep from cycle to cycle."""

from __future__ import annotations

from exporter.collectors import UTILIZATION
from exporter.collectors.base import Paced
from exporter.collectors.power import POWER, Power, PowerLimits
from exporter.collectors.sample_integral import Integral
from exporter.collectors.utilization import Utilization
from exporter.core.clock import EPOCH, MonotonicTime
from exporter.core.units import Joules
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


def test_energy_is_metered_from_read_to_read_and_anew_after_a_reset() -> None:
    """The second read is shown in two cycles: the GPU did not answer in the second of them."""
    readings, gpu = LedgerReadings(), device(0)

    def gained(energy: float, at: float) -> tuple[float, float]:
        power = Power(None, Joules(energy), Paced(PowerLimits(None, None, None, None), EPOCH))
        cached = CachedReading(POWER, power, MonotonicTime(at))
        return readings._energy_gain(Gpu(gpu, {gpu.uuid: TargetState({"power": cached})}))

    assert [gained(*each) for each in ((900.0, 10.0), (1200.0, 11.0), (1200.0, 11.0), (6200.0, 21.0), (5.0, 22.0))] == [
        (0.0, 0.0),
        (300.0, 1.0),
        (0.0, 0.0),
        (5000.0, 10.0),
        (5.0, 1.0),
    ]
