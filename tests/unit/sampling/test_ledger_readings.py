"""What the readings of the ledger keep from pass to pass."""

from __future__ import annotations

import weakref

from exporter.attribution.ownership import Ownership
from exporter.collectors import UTILIZATION
from exporter.collectors.sample_integral import Integral
from exporter.collectors.utilization import Utilization
from exporter.core.clock import MonotonicTime
from exporter.core.units import Share
from exporter.driver.interface import Mig
from exporter.sampling.gpus import Gpu
from exporter.sampling.join import Join
from exporter.sampling.ledger_readings import LedgerReadings
from exporter.sampling.reader import CachedReading, TargetState
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


def test_what_can_be_held_is_made_once_of_each_device_that_an_enumeration_gave() -> None:
    readings = LedgerReadings()
    first, again = device(3), device(7)

    assert readings._target(first) is readings._target(first)
    assert (readings._target(first).minor, readings._target(again).minor) == (3, 7)
    assert readings._target(again).uuid == first.uuid


def test_destroyed_instance_is_let_go() -> None:
    """Its device has kilobytes of buffers, and a node may make instances for every job."""
    readings = LedgerReadings()
    gpu = device(0)
    join = Join({gpu.uuid: ()}, (), {}, Ownership(), {}, 0)
    kept: list[weakref.ref[Scripted]] = []
    for number in range(3):
        instance = Scripted(0, lambda _: None, Mig(0, 0, "", Share(1.0)))
        instance.uuid = f"MIG-{number}"
        kept.append(weakref.ref(instance))
        gpu.instances = (instance,)
        readings.of([Gpu(gpu)], join, MonotonicTime(float(number)))
    del instance

    assert [each() is None for each in kept] == [True, True, False]


def test_busy_time_is_counted_from_read_to_read_and_anew_after_a_reset() -> None:
    readings = LedgerReadings()

    counted = [
        readings._counted(busy_for(*each), MonotonicTime(each[1])) for each in ((5.0, 10.0), (6.5, 12.0), (0.5, 16.0))
    ]

    assert counted == [None, (1.5, 2.0), (0.5, 4.0)]
