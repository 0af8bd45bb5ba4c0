"""Utilization of the GPU, its memory and its engines: as read, and integrated exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.sample_integral import SILENT_AFTER_SECONDS, Integral, add_samples, assume_level, with_clock_of
from exporter.core.families import Family, Unit, counter, gauge
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_GPU_SAMPLES, _MEMORY_SAMPLES = nvml.NVML_GPU_UTILIZATION_SAMPLES, nvml.NVML_MEMORY_UTILIZATION_SAMPLES


@record
class Utilization:
    """`gpu` and `memory` are the driver's current window (1/6 s to 1 s by product), 0 to 1."""

    gpu: float | None
    memory: float | None
    busy: Integral | None
    memory_busy: Integral | None

    @property
    def share(self) -> float | None:
        """Fraction of the last cycle in which a kernel ran, 0 to 1: the mean of its samples."""
        return self.gpu if self.busy is None or self.busy.share is None else self.busy.share

    @property
    def memory_ratio(self) -> float | None:
        """Fraction of the last cycle in which device memory was read or written, 0 to 1."""
        return self.memory if self.memory_busy is None or self.memory_busy.share is None else self.memory_busy.share


def read_utilization(device: Device, previous: Utilization | None, tick: Tick) -> Utilization:
    gpu, memory = _read_rates(device)
    busy = _integrate_busy(device, _GPU_SAMPLES, gpu, previous.busy if previous else None, tick)
    memory_busy = _integrate_busy(device, _MEMORY_SAMPLES, memory, previous.memory_busy if previous else None, tick)
    if gpu is None and busy is None:
        raise UnsupportedError("no utilization (MIG mode?)")
    return Utilization(gpu, memory, busy, memory_busy)


def read_again(device: Device, reading: Utilization) -> Utilization:
    """Return the reading with one more read inside the cycle, which is counted at the end of the cycle."""
    gpu, memory = _read_rates(device)
    return replace(
        reading,
        busy=_with_extra(device, _GPU_SAMPLES, gpu, reading.busy),
        memory_busy=_with_extra(device, _MEMORY_SAMPLES, memory, reading.memory_busy),
    )


def _read_rates(device: Device) -> tuple[float | None, float | None]:
    rates = device.get("nvmlDeviceGetUtilizationRates")
    return (None, None) if rates is None else (rates.gpu / 100, rates.memory / 100)


def _with_extra(device: Device, samples: int, level: float | None, before: Integral | None) -> Integral | None:
    if before is None or level is None:
        return before
    found = None if before.buffer.depth is None else device.get("nvmlDeviceGetSamples", samples, before.since)
    return replace(before, readings=(*before.readings, level), samples=(*before.samples, *(found or ())))


def _integrate_busy(
    device: Device, samples: int, level: float | None, before: Integral | None, tick: Tick
) -> Integral | None:
    before, seconds = before or Integral(), tick.seconds
    readings = before.readings
    level = sum(readings) / len(readings) if readings else level
    answer = device.get("nvmlDeviceGetSamples", samples, before.since)
    if answer is None:
        return None if level is None else replace(assume_level(before, level, seconds, len(readings) or 1), readings=())
    late = tick.late()
    if not answer and before.cursor and before.pending + seconds + late > SILENT_AFTER_SECONDS:
        answer = device.get("nvmlDeviceGetSamples", samples, 0) or ()
        before = with_clock_of(answer, before, seconds + late)
    return add_samples(before, (*before.samples, *answer), seconds, late, level)


UTILIZATION: Collector[Utilization] = Collector(
    name="utilization",
    help="Utilization of GPU and memory, and busy seconds from the driver's sample buffers. 3 driver calls a cycle, and up to 4 more where its buffers keep too little.",
    pace=Pace.CYCLE,
    read=read_utilization,
    extra_reads=lambda reading, interval: reading.busy.extra_reads(interval) if reading.busy else 0,
    read_again=read_again,
    families=(
        gauge("gpu_utilization_ratio", "Fraction of the driver's last window in which a kernel ran; the driver may count copies over PCIe too.", Unit.RATIO, lambda r: r.gpu),
        gauge("gpu_memory_activity_ratio", "Fraction of the driver's last window in which device memory was read or written.", Unit.RATIO, lambda r: r.memory),
        counter("gpu_busy_seconds_total", "Seconds in which a kernel ran, integrated from the driver's own samples; these may count copies over PCIe too.", Unit.SECONDS, lambda r: None if r.busy is None else r.busy.total),
        counter("gpu_memory_busy_seconds_total", "Seconds in which device memory was read or written, integrated from the driver's own samples.", Unit.SECONDS, lambda r: None if r.memory_busy is None else r.memory_busy.total),
        counter("gpu_exporter_samples_lost_seconds_total", "Seconds of utilization lost: no sample or reading covers them, and gpu_busy_seconds_total has nothing of them.", Unit.SECONDS, lambda r: None if r.busy is None else r.busy.lost),
    ),
)  # fmt: skip


@record
class Engines:
    """Fractions of the driver's sampling period, 0 to 1."""

    encoder: float | None
    decoder: float | None
    jpeg: float | None
    ofa: float | None


def read_engines(device: Device, _previous: Engines | None, _tick: Tick) -> Engines:
    engines = Engines(
        encoder=_engine_ratio(device, "nvmlDeviceGetEncoderUtilization"),
        decoder=_engine_ratio(device, "nvmlDeviceGetDecoderUtilization"),
        jpeg=_engine_ratio(device, "nvmlDeviceGetJpgUtilization"),
        ofa=_engine_ratio(device, "nvmlDeviceGetOfaUtilization"),
    )
    if engines == Engines(None, None, None, None):
        raise UnsupportedError("no engine utilization")
    return engines


def _engine_ratio(device: Device, function: str) -> float | None:
    """The driver answers percent and the sampling period in µs."""
    answer = device.get(function)
    return None if answer is None else min(answer[0], 100) / 100


def _engine_family(engine: str, title: str, value: Callable[[Engines], float | None]) -> Family[Engines]:
    return gauge(
        f"gpu_{engine}_utilization_ratio",
        f"Fraction of the driver's last window in which the {title} was in use.",
        Unit.RATIO,
        value,
    )


ENGINES: Collector[Engines] = Collector(
    name="engines",
    help="Utilization of encoder, decoder, JPEG and optical-flow engines. 4 driver calls every 5 s.",
    pace=Pace.FAST,
    read=read_engines,
    families=(
        _engine_family("encoder", "video encoder", lambda e: e.encoder),
        _engine_family("decoder", "video decoder", lambda e: e.decoder),
        _engine_family("jpeg", "JPEG decoder", lambda e: e.jpeg),
        _engine_family("ofa", "optical flow accelerator", lambda e: e.ofa),
    ),
)  # fmt: skip
