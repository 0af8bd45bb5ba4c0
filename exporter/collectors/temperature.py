"""Temperatures, the thresholds at which the GPU slows down or stops, and fans.

Up to Ampere thresholds are temperatures. From Ada on the driver states them as T.Limit: the margin (in °C, often
negative) left when the threshold is reached, on the scale of nvmlDeviceGetMarginTemperature. One scale cannot be
turned into the other, so they are two families.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.collectors.base import Collector, Fields, Pace, Paced, Tick, read_fields, read_when_due
from exporter.core.families import Sample, Unit, by, gauge, gauges
from exporter.core.record import record
from exporter.driver import constants as nvml
from exporter.driver.interface import Device, UnsupportedError

_GPU_SENSOR = nvml.NVML_TEMPERATURE_GPU
_MEMORY_FIELD = nvml.NVML_FI_DEV_MEMORY_TEMP
_THRESHOLDS = (
    # threshold    code  T.Limit field
    ("shutdown", nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, nvml.NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT),
    ("slowdown", nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, nvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT),
    ("memory_max", nvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX, nvml.NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT),
    ("gpu_max", nvml.NVML_TEMPERATURE_THRESHOLD_GPU_MAX, nvml.NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT),
)  # fmt: skip


@record
class Thresholds:
    """`celsius` are temperatures, `margins` the margin left at the threshold (T.Limit), both by threshold."""

    celsius: Mapping[str, float]
    margins: Mapping[str, float]
    fields: Fields
    fans: int


@record
class Temperature:
    """°C; `margin` is the distance to the nearest slowdown threshold. Fan speeds are ratios of the maximum, by fan."""

    gpu: float | None
    memory: float | None
    margin: float | None
    thresholds: Paced[Thresholds]
    fans: Mapping[str, float]
    fans_rpm: Mapping[str, float]
    memory_field: Fields


def read_temperature(device: Device, previous: Temperature | None, tick: Tick) -> Temperature:
    before = previous.thresholds if previous else None
    thresholds = read_when_due(
        before, Pace.SLOW, tick, lambda: _read_thresholds(device, before.value if before else None, tick)
    )
    memory = read_fields(device, ((_MEMORY_FIELD, 0),), previous.memory_field if previous else None, tick)
    fans = thresholds.value.fans
    # The newer call came with R570; the older is announced to go.
    sensor = device.get("nvmlDeviceGetTemperatureV", _GPU_SENSOR)
    sensor = sensor if sensor is not None else device.get("nvmlDeviceGetTemperature", _GPU_SENSOR)
    temperature = Temperature(
        gpu=_plain_number(sensor, "temperature"),
        memory=memory.get(_MEMORY_FIELD),
        margin=_plain_number(device.get("nvmlDeviceGetMarginTemperature"), "marginTemperature"),
        thresholds=thresholds,
        fans={
            str(fan): percent / 100
            for fan in range(fans)
            if (percent := device.get("nvmlDeviceGetFanSpeed_v2", fan)) is not None
        },
        fans_rpm=_read_rpm(device) if fans else {},
        memory_field=memory,
    )
    if temperature.gpu is None and temperature.memory is None and temperature.margin is None and not temperature.fans:
        raise UnsupportedError("no temperatures")
    return temperature


def _plain_number(answer: object, name: str) -> float | None:
    """The number in an answer that is either the number or the struct around it."""
    value = getattr(answer, name, answer)
    return float(value) if isinstance(value, int | float) else None


def _read_rpm(device: Device) -> Mapping[str, float]:
    """The binding asks for the first fan only."""
    speed = _plain_number(device.get("nvmlDeviceGetFanSpeedRPM"), "speed")
    return {} if speed is None else {"0": speed}


def _read_thresholds(device: Device, before: Thresholds | None, tick: Tick) -> Thresholds:
    fields = read_fields(device, [(field, 0) for _, _, field in _THRESHOLDS], before.fields if before else None, tick)
    thresholds = {name: device.get("nvmlDeviceGetTemperatureThreshold", code) for name, code, _ in _THRESHOLDS}
    celsius = {name: value for name, value in thresholds.items() if value}  # 0 °C is no threshold: not set
    return Thresholds(
        celsius={**(before.celsius if before else {}), **celsius},  # one that was set is not unset
        margins={name: margin for name, _, field in _THRESHOLDS if (margin := fields.get(field)) is not None},
        fields=fields,
        fans=device.get("nvmlDeviceGetNumFans") or 0,
    )


TEMPERATURE: Collector[Temperature] = Collector(
    name="temperature",
    help="Temperatures, thresholds and fans. 3 driver calls every 5 s and 1 per fan, 6 more every 30 s.",
    pace=Pace.FAST,
    read=read_temperature,
    families=(
        gauges("gpu_temperature_celsius", "Temperature of the GPU and of its memory.", Unit.CELSIUS, by(lambda t: (("gpu", t.gpu), ("memory", t.memory))), ("sensor",)),
        gauges("gpu_temperature_threshold_celsius", "Temperature at which the GPU slows down or stops.", Unit.CELSIUS, by(lambda t: t.thresholds.value.celsius.items()), ("threshold",)),
        gauge("gpu_temperature_margin_celsius", "Degrees left to the nearest slowdown threshold.", Unit.CELSIUS, lambda t: t.margin),
        gauges("gpu_temperature_threshold_margin_celsius", "The margin left when the threshold is reached (T.Limit, Ada and newer), often negative.", Unit.CELSIUS, by(lambda t: t.thresholds.value.margins.items()), ("threshold",)),
        gauges("gpu_fan_speed_ratio", "Fan speed the GPU asks for, as a fraction of the maximum; it may exceed 1.", Unit.RATIO, lambda t: (Sample(ratio, (fan,)) for fan, ratio in t.fans.items()), ("fan",)),
        gauges("gpu_fan_speed_rpm", "Fan speed in revolutions per minute.", Unit.NONE, lambda t: (Sample(rpm, (fan,)) for fan, rpm in t.fans_rpm.items()), ("fan",)),
    ),
)  # fmt: skip
