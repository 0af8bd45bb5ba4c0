"""`gpu_busy_seconds_total` is the integral of the driver's samples, however few of them its buffer keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from exporter.driver.interface import Record
from exporter.sampling.sampler import GOLDEN_RATIO, read_times
from tests.contract.cycles.node import ScriptedNode
from tests.contract.cycles.rig import UPTIME, Rig, gpu

SAMPLES_PER_SECOND = 6
MEASURED_SECONDS = 240
MAX_JITTER_SECONDS = 0.1
"""By which sampling cycles start late or early."""

Load = Callable[[float], float]


def constant(_time: float) -> float:
    return 60.0


def training(time: float) -> float:
    """Steps of 0.8 s, each with a pause."""
    return 100.0 if time % 0.8 < 0.5 else 0.0


def slow_wave(time: float) -> float:
    return 90.0 if time % 20.0 < 10.0 else 76.0


class SampleBuffer:
    """The driver's ring buffer: means of 1/6 s each, the newest `depth` seconds of them."""

    def __init__(self, rig: Rig, load: Load, depth: float) -> None:
        self._rig, self._load, self._kept = rig, load, round(depth * SAMPLES_PER_SECOND)

    def samples(self, _kind: int, cursor: int) -> Sequence[tuple[int, float]]:
        newest = int((UPTIME + self._rig.seconds) * SAMPLES_PER_SECOND)
        numbers = range(newest - self._kept + 1, newest + 1)
        found = [(round(number / SAMPLES_PER_SECOND * 1e6), self._mean(number)) for number in numbers]
        return [each for each in found if each[0] > cursor]

    def rates(self) -> Record:
        """The driver's own window, of a second."""
        newest = int((UPTIME + self._rig.seconds) * SAMPLES_PER_SECOND)
        last = [self._mean(n) for n in range(newest - SAMPLES_PER_SECOND + 1, newest + 1)]
        return Record(gpu=round(sum(last) / len(last)), memory=0)

    def _mean(self, number: int) -> float:
        times = [(number - 1 + step / 10) / SAMPLES_PER_SECOND for step in range(10)]
        return sum(map(self._load, times)) / len(times)


@pytest.fixture
def rig() -> Iterator[Rig]:
    found = Rig([gpu(0)], ScriptedNode())
    del found.gpus[0].answers["nvmlGpmMetricsGet"]
    yield found
    found.stop()


def busy_seconds(rig: Rig) -> float:
    (row,) = [line for line in rig.text("gpu_busy_seconds_total").splitlines() if not line.startswith("#")]
    return float(row.rpartition(" ")[2])


@pytest.mark.parametrize("load", [constant, training, slow_wave])
@pytest.mark.parametrize("depth", [14, 10, 5, 1])
def test_busy_seconds_with_short_sample_buffer_equal_the_load(rig: Rig, depth: float, load: Load) -> None:
    buffer = SampleBuffer(rig, load, depth)
    rig.gpus[0].answers["nvmlDeviceGetSamples"] = buffer.samples
    rig.gpus[0].answers["nvmlDeviceGetUtilizationRates"] = buffer.rates
    run(rig, 20)
    start, before = rig.seconds, busy_seconds(rig)

    run(rig, MEASURED_SECONDS)

    seconds = rig.seconds - start
    times = [UPTIME + start + seconds * step / 100_000 for step in range(100_000)]
    expected = sum(map(load, times)) / len(times) / 100
    assert (busy_seconds(rig) - before) / seconds == pytest.approx(expected, abs=0.01)


def run(rig: Rig, cycles: int) -> None:
    """Sampling cycles with the reads inside them that the sampler asks for."""
    for number in range(cycles):
        rig.cycles(every=0.0)
        began = rig.seconds
        for fraction in read_times(rig.sampler.extra_reads(), number * GOLDEN_RATIO % 1.0):
            rig.seconds = began + fraction
            rig.sampler.read_again()
        rig.seconds = began + 1.0 + jitter(number + 1) - jitter(number)


def jitter(number: int) -> float:
    return ((number * 7919) % 41 - 20) / 20 * MAX_JITTER_SECONDS
