"""Power drawn, its limits, and the energy used."""

from __future__ import annotations

from exporter.collectors.base import Collector, Pace, Paced, Tick, read_when_due
from exporter.core.families import Unit, counter, gauge
from exporter.core.record import record
from exporter.core.units import Joules, Watts
from exporter.driver.interface import Device, UnsupportedError


@record
class PowerLimits:
    """Watts. `enforced` is the lowest of all limiters, in force now."""

    enforced: Watts | None
    default: Watts | None
    minimum: Watts | None
    maximum: Watts | None


@record
class Power:
    """`watts` is a 1-s mean on Ampere (but GA100) and newer, instantaneous before; `joules` since driver load."""

    watts: Watts | None
    joules: Joules | None
    """Energy by the driver's counter."""
    limits: Paced[PowerLimits]
    integrated: Joules | None = None
    """Energy integrated from power since the second reading, for a GPU without a counter (Pascal, vGPU)."""
    counts: bool = False
    """True if the driver ever counted."""

    @property
    def energy(self) -> Joules | None:
        return self.joules if self.integrated is None else self.integrated

    @property
    def limit_watts(self) -> float | None:
        return self.limits.value.enforced

    @property
    def of_limit(self) -> float | None:
        """Power over the enforced limit, about 0 to 1."""
        return self.watts / self.limit_watts if self.watts is not None and self.limit_watts else None


def read_power(device: Device, previous: Power | None, tick: Tick) -> Power:
    def read_limits() -> PowerLimits:
        lowest, highest = device.get("nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
        return PowerLimits(
            enforced=_watts_of(device.get("nvmlDeviceGetEnforcedPowerLimit")),
            default=_watts_of(device.get("nvmlDeviceGetPowerManagementDefaultLimit")),
            minimum=_watts_of(lowest),
            maximum=_watts_of(highest),
        )

    milliwatts = device.get("nvmlDeviceGetPowerUsage")
    millijoules = device.get("nvmlDeviceGetTotalEnergyConsumption")
    watts = _watts_of(milliwatts)
    joules = None if millijoules is None else Joules(millijoules / 1000)
    paced = read_when_due(previous.limits if previous else None, Pace.SLOW, tick, read_limits)
    counts = previous.counts if previous else False
    integrated = previous.integrated if previous else None
    if previous and not counts and (joules is None or integrated is not None):
        integrated = _integrate_power(previous, watts, tick.seconds)
    counts = counts or (joules is not None and integrated is None)
    power = Power(watts, joules, paced, integrated, counts)
    if watts is None and joules is None and power.limits.value == PowerLimits(None, None, None, None):
        raise UnsupportedError("no power readings")
    return power


_MAX_GAP_SECONDS = 60.0
"""Seconds between two readings from which the power meanwhile is not known."""


def _integrate_power(previous: Power, watts: Watts | None, seconds: float) -> Joules | None:
    """Return the energy once power is known for a while; the one before where there is a gap."""
    if watts is None or previous.watts is None or seconds > _MAX_GAP_SECONDS:
        return previous.integrated
    return Joules((previous.integrated or 0.0) + (watts + previous.watts) / 2 * seconds)


def _watts_of(milliwatts: int | None) -> Watts | None:
    return None if milliwatts is None else Watts(milliwatts / 1000)


POWER: Collector[Power] = Collector(
    name="power",
    help="Power, energy and power limits. 2 driver calls a cycle, 3 more every 30 s.",
    pace=Pace.CYCLE,
    read=read_power,
    families=(
        gauge("gpu_power_watts", "Power drawn: a 1-second mean on Ampere (but A100) and newer, instantaneous before.", Unit.WATTS, lambda p: p.watts),
        gauge("gpu_power_limit_watts", "Power limit in force: the lowest of all limiters.", Unit.WATTS, lambda p: p.limits.value.enforced),
        gauge("gpu_power_default_limit_watts", "Power limit the GPU starts with.", Unit.WATTS, lambda p: p.limits.value.default),
        gauge("gpu_power_min_limit_watts", "Lowest power limit that can be set.", Unit.WATTS, lambda p: p.limits.value.minimum),
        gauge("gpu_power_max_limit_watts", "Highest power limit that can be set.", Unit.WATTS, lambda p: p.limits.value.maximum),
        counter("gpu_energy_joules_total", "Energy used since the driver was loaded; its rate is the mean power. Without a counter in the driver (Pascal, vGPU): power, integrated since the exporter started.", Unit.JOULES, lambda p: p.energy),
    ),
)  # fmt: skip
