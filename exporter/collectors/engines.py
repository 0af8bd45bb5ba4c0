"""Utilization of the video, image and optical-flow engines."""

from __future__ import annotations

from collections.abc import Callable

from exporter.collectors.base import Collector, Pace, Tick
from exporter.core.families import Family, Unit, gauge
from exporter.core.record import record
from exporter.driver.interface import Device, UnsupportedError


@record
class Engines:
    """Shares of the driver's sampling period, 0 to 1."""

    encoder: float | None
    decoder: float | None
    jpeg: float | None
    ofa: float | None


def read(device: Device, _previous: Engines | None, _tick: Tick) -> Engines:
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
    read=read,
    families=(
        _ratio("encoder", "video encoder", lambda e: e.encoder),
        _ratio("decoder", "video decoder", lambda e: e.decoder),
        _ratio("jpeg", "JPEG decoder", lambda e: e.jpeg),
        _ratio("ofa", "optical flow accelerator", lambda e: e.ofa),
    ),
)  # fmt: skip
