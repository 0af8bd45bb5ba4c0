"""What is told in the log of a GPU's life: once, when it begins, and when it ends."""

from __future__ import annotations

import logging
from dataclasses import replace
from itertools import count

import pytest

from exporter.collectors.base import Scope
from exporter.core.clock import MonotonicTime
from exporter.core.families import Unit, gauge
from exporter.core.units import Fraction
from exporter.driver.interface import DeviceLostError, DriverError, Mig
from exporter.sampling.blocks import collector_statuses, device_blocks
from exporter.sampling.gpus import Gpu, Gpus
from exporter.sampling.reader import read_gpu
from tests.unit.sampling.scripted import Scripted, answers, collector

FAR = 1e9


MOMENTS = count(0, 20)
"""Monotonic seconds of the reads: far enough apart that what failed is asked again."""


def read(gpus: Gpus, *devices: Scripted) -> None:
    for _ in range(2):
        gpus.read(devices, 0.0, FAR, MonotonicTime(float(next(MOMENTS))))


def test_gpu_that_fails_goes_and_comes_back_is_told_in_six_lines(caplog: pytest.LogCaptureFixture) -> None:
    gpus = Gpus([collector("value")])
    read(gpus, Scripted(2, answers(value=1.0)))
    read(gpus, Scripted(2, answers(value=DriverError("broken", "UNKNOWN"))))
    read(gpus, Scripted(2, answers(value=DeviceLostError("fell off", "GPU_IS_LOST"))))
    read(gpus)
    read(gpus, Scripted(2, answers(value=1.0)))
    gpus.stop()

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "collector value failed on GPU-2: DriverError UNKNOWN: broken"),
        ("WARNING", "GPU GPU-2: answers nothing (broken)"),
        ("WARNING", "collector value failed on GPU-2: DeviceLostError GPU_IS_LOST: fell off"),
        ("WARNING", "GPU GPU-2: fell off"),
        ("WARNING", "GPU GPU-2 (index 2) has gone from the driver"),
        ("WARNING", "GPU GPU-2: answers again"),
    ]


def test_mig_instance_that_fails_beside_one_that_is_well_is_seen_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The one that is read last speaks for itself alone."""
    gpu = Scripted(0, answers())
    ill, well = (
        Scripted(0, answers(value=value), Mig(0, 0, "", Fraction(0.5))) for value in (DriverError("no", "X"), 1.0)
    )
    ill.uuid, well.uuid = "MIG-1", "MIG-2"
    gpu.instances = (ill, well)
    inside = collector("value", scope=Scope.INSTANCE)
    gpus = Gpus([inside])

    read(gpus, gpu)
    (failing,) = collector_statuses([inside], gpus.outcomes(), {})
    gpu.instances = (well,)
    read(gpus, gpu)
    (destroyed,) = collector_statuses([inside], gpus.outcomes(), {})
    gpus.stop()

    assert (failing.success, destroyed.success) == (False, True)
    assert caplog.messages == ["collector value failed on MIG-1: DriverError X: no"]


def test_late_gpu_is_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = Gpus([collector("value")])
    monkeypatch.setattr(gpus.threads, "read", lambda tasks, *_: dict.fromkeys(tasks))
    read(gpus, Scripted(0, answers(value=1.0)))

    assert caplog.messages == ["GPU GPU-0 does not answer within the deadline"]


def test_bug_in_a_collector_is_told_with_its_trace_to_who_debugs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    read_gpu(Scripted(0, answers(value=KeyError("bug"))), {}, [collector("value")], 0.0, 0.0, {})

    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("DEBUG", "collector value is broken on GPU-0")
    assert record.exc_info


def test_samples_that_cannot_be_made_cost_their_collector_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bad = replace(collector("bad"), families=(gauge("gpu_bad", "A test.", Unit.NONE, lambda _: 1 / 0),))
    states = read_gpu(Scripted(0, answers(bad=1.0, good=2.0)), {}, [bad, collector("good")], 0.0, 0.0, {}).states
    gpu = Gpu(Scripted(0, answers()), states, answered=0.0)
    broken: set[str] = set()

    assert [block.family.name for block in device_blocks(gpu, 0.0, 10.0, broken)] == ["gpu_good_total"]
    assert broken == {"bad"}
    assert caplog.messages == ["samples of collector bad cannot be made"]
    assert caplog.records[0].exc_info
    with pytest.raises(ZeroDivisionError):
        list(device_blocks(gpu, 0.0, 10.0))
