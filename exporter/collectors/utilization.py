"""Utilization of the GPU, its memory and its engines: as read, and integrated exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from exporter.collectors.base import Collector, ExtraReads, Pace, Tick
from exporter.collectors.sample_integral import Integral, Samples, advance, assume, is_due, is_silent, with_clock_of
from exporter.core.clock import EPOCH
from exporter.core.families import Family, Unit, counter, gauge
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_GPU_SAMPLES, _MEMORY_SAMPLES = nvml.NVML_GPU_UTILIZATION_SAMPLES, nvml.NVML_MEMORY_UTILIZATION_SAMPLES


class ExtraRead(NamedTuple):
    """One read inside a cycle: utilization of GPU and memory, 0 to 1, and the samples of both."""

    gpu: float | None
    memory: float | None
    samples: Samples = ()
    memory_samples: Samples = ()


@record
class Utilization:
    """`gpu` and `memory` are the driver's current window (1/6 s to 1 s by product), 0 to 1."""

    gpu: float | None
    memory: float | None
    busy: Integral | None
    memory_busy: Integral | None
    extra: tuple[ExtraRead, ...] = ()
    """Reads of this cycle since then, at times drawn at random."""

    @property
    def share(self) -> float | None:
        """Share of the last pass in which a kernel ran, 0 to 1: the mean of its samples."""
        return self.gpu if self.busy is None or self.busy.share is None else self.busy.share

    @property
    def memory_share(self) -> float | None:
        """Share of the last pass in which device memory was read or written, 0 to 1."""
        return self.memory if self.memory_busy is None or self.memory_busy.share is None else self.memory_busy.share


def read(device: Device, previous: Utilization | None, tick: Tick) -> Utilization:
    """Read the driver, and count what it returned in the reads since the cycle before."""
    gpu, memory = _rates(device)
    extra = previous.extra if previous else ()
    busy = _integrated(
        device,
        _GPU_SAMPLES,
        previous.busy if previous else None,
        [each.gpu for each in extra if each.gpu is not None] or [gpu],
        [sample for each in extra for sample in each.samples],
        tick,
    )
    memory_busy = _integrated(
        device,
        _MEMORY_SAMPLES,
        previous.memory_busy if previous else None,
        [each.memory for each in extra if each.memory is not None] or [memory],
        [sample for each in extra for sample in each.memory_samples],
        tick,
    )
    if gpu is None and busy is None:
        raise UnsupportedError("no utilization (MIG mode?)")
    return Utilization(gpu, memory, busy, memory_busy)


def extra_reads(reading: Utilization, interval: float) -> int:
    """Return how often to read again inside a cycle of `interval` seconds."""
    return reading.busy.extra_reads(interval) if reading.busy else 0


def read_again(device: Device, reading: Utilization) -> Utilization:
    """Return the reading with one more read inside the cycle. It is counted at the end of the cycle."""
    gpu, memory = _rates(device)
    samples, memory_samples = (
        _samples(device, kind, integral) if integral and integral.buffer.depth is not None else ()
        for kind, integral in ((_GPU_SAMPLES, reading.busy), (_MEMORY_SAMPLES, reading.memory_busy))
    )
    return replace(reading, extra=(*reading.extra, ExtraRead(gpu, memory, samples, memory_samples)))


def _rates(device: Device) -> tuple[float | None, float | None]:
    rates = device.get("nvmlDeviceGetUtilizationRates")
    return (None, None) if rates is None else (rates.gpu / 100, rates.memory / 100)


def _samples(device: Device, kind: int, integral: Integral) -> Samples:
    return device.get("nvmlDeviceGetSamples", kind, integral.since) or () if integral.sampled else ()


def _integrated(  # noqa: PLR0913 - both kinds of one read
    device: Device, kind: int, before: Integral | None, levels: Sequence[float | None], extra: Samples, tick: Tick
) -> Integral | None:
    refused = before.refused if before else EPOCH
    known = [level for level in levels if level is not None]
    if is_due(before, tick.time):
        answer = device.get("nvmlDeviceGetSamples", kind, before.since if before else 0)
        if answer is not None:
            level = sum(known) / len(known) if known else None
            return _advanced(device, kind, [*extra, *answer], before or Integral(), level, tick)
        refused = tick.time
    if not known:
        return None
    return replace(assume(before or Integral(), known, tick.seconds), refused=refused)


def _advanced(  # noqa: PLR0913 - one read
    device: Device, kind: int, answer: Samples, before: Integral, level: float | None, tick: Tick
) -> Integral:
    late = tick.late()
    if not answer and is_silent(before, tick.seconds, late):
        answer = device.get("nvmlDeviceGetSamples", kind, 0) or ()
        before = with_clock_of(answer, before, tick.seconds, late)
    return advance(before, answer, tick.seconds, late, level)


UTILIZATION: Collector[Utilization] = Collector(
    name="utilization",
    help="Utilization of GPU and memory, and busy seconds from the driver's sample buffers; 3 driver calls a pass, and up to 4 more where its buffers keep too little.",
    pace=Pace.PASS,
    read=read,
    extra=ExtraReads(extra_reads, read_again),
    families=(
        gauge("gpu_utilization_ratio", "Share of the driver's last window in which a kernel ran; the driver may count copies over PCIe too.", Unit.RATIO, lambda r: r.gpu),
        gauge("gpu_memory_activity_ratio", "Share of the driver's last window in which device memory was read or written.", Unit.RATIO, lambda r: r.memory),
        counter("gpu_busy_seconds_total", "Seconds in which a kernel ran, integrated from the driver's own samples; these may count copies over PCIe too.", Unit.SECONDS, lambda r: None if r.busy is None else r.busy.total),
        counter("gpu_memory_busy_seconds_total", "Seconds in which device memory was read or written, integrated from the driver's own samples.", Unit.SECONDS, lambda r: None if r.memory_busy is None else r.memory_busy.total),
        counter("gpu_exporter_samples_lost_seconds_total", "Seconds of utilization lost: no sample or reading covers them, and gpu_busy_seconds_total has nothing of them.", Unit.SECONDS, lambda r: None if r.busy is None else r.busy.lost),
    ),
)  # fmt: skip


@record
class Engines:
    """Shares of the driver's sampling period, 0 to 1."""

    encoder: float | None
    decoder: float | None
    jpeg: float | None
    ofa: float | None


def read_engines(device: Device, _previous: Engines | None, _tick: Tick) -> Engines:
    engines = Engines(
        encoder=_share(device, "nvmlDeviceGetEncoderUtilization"),
        decoder=_share(device, "nvmlDeviceGetDecoderUtilization"),
        jpeg=_share(device, "nvmlDeviceGetJpgUtilization"),
        ofa=_share(device, "nvmlDeviceGetOfaUtilization"),
    )
    if engines == Engines(None, None, None, None):
        raise UnsupportedError("no engine utilization")
    return engines


def _share(device: Device, function: str) -> float | None:
    """The driver answers percent and the sampling period in µs."""
    answer = device.get(function)
    return None if answer is None else min(answer[0], 100) / 100


def _ratio(engine: str, title: str, value: Callable[[Engines], float | None]) -> Family[Engines]:
    return gauge(
        f"gpu_{engine}_utilization_ratio",
        f"Share of the driver's last window in which the {title} was in use.",
        Unit.RATIO,
        value,
    )


ENGINES: Collector[Engines] = Collector(
    name="engines",
    help="Utilization of encoder, decoder, JPEG and optical-flow engines; 4 driver calls every 5 s.",
    pace=Pace.FAST,
    read=read_engines,
    families=(
        _ratio("encoder", "video encoder", lambda e: e.encoder),
        _ratio("decoder", "video decoder", lambda e: e.decoder),
        _ratio("jpeg", "JPEG decoder", lambda e: e.jpeg),
        _ratio("ofa", "optical flow accelerator", lambda e: e.ofa),
    ),
)  # fmt: skip
