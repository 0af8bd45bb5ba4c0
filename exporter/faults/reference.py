"""Facts and settings of a GPU, against what the site expects of all of them and what the GPU itself can do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from exporter.config.kinds import number
from exporter.faults.model import FaultKind
from exporter.faults.rule import Cause, Facts, Limits, Series

_SWITCH = {1.0: "on", 0.0: "off"}
_MHZ = 1e6
_LOW = 0.5
"""Fraction of what a GPU can do; the same as the alert's."""
BUSY = 0.5
"""Utilization from which on the clocks are compared: idle GPUs lower them by themselves."""
_ALL_POWER = 0.9
"""Part of the power that the GPU may draw by default."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A series that a site may say the value of, as text. Empty is what is not known."""

    family: str
    value: Callable[[Series], str]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    accepts: Callable[[str], str] = str
    """A value as a site gives it, made what `value` would give. Raises ValueError with what was expected."""
    fault: str = ""
    """Fault that says the same of a GPU."""


def _label_of(name: str) -> Callable[[Series], str]:
    return lambda series: series.labels.get(name, "")


def _format_switch(series: Series) -> str:
    return _SWITCH.get(series.value, "")


def _on_or_off(text: str) -> str:
    meant = {"true": "on", "false": "off"}.get(text, text)  # YAML 1.1 reads a bare `on` as true
    if meant not in _SWITCH.values():
        raise ValueError(f"on or off, got {text!r}")
    return meant


def _parse_number(text: str) -> str:
    try:
        return f"{number(text):g}"
    except ValueError as wanted:
        raise ValueError(f"{wanted}, got {text!r}") from None


def _format_value(series: Series) -> str:
    return f"{series.value:g}"


def _format_mhz(series: Series) -> str:
    return f"{series.value / _MHZ:g}"


REFERENCES: Mapping[str, Reference] = {
    "driver": Reference("gpu_driver_info", _label_of("driver")),
    "vbios": Reference("gpu_info", _label_of("vbios")),
    "model": Reference("gpu_info", _label_of("model")),
    "ecc": Reference("gpu_ecc_mode_enabled", _format_switch, accepts=_on_or_off),
    "persistence": Reference("gpu_persistence_mode_enabled", _format_switch, accepts=_on_or_off),
    "power-limit": Reference("gpu_power_limit_watts", _format_value, accepts=_parse_number),
    "sm-clock": Reference("gpu_clock_max_hertz", _format_mhz, {"domain": "sm"}, _parse_number),
    "nvlinks": Reference("gpu_nvlink_links_up", _format_value, {}, _parse_number, FaultKind.NVLINK.value),
    "pcie-width": Reference("gpu_pcie_link_width", _format_value, {}, _parse_number, FaultKind.PCIE_WIDTH.value),
    "memory-clock": Reference("gpu_clock_max_hertz", _format_mhz, {"domain": "memory"}, _parse_number),
}
"""References by name. Clocks are the highest of their domain, in MHz; the power limit is in watts."""


def stated_levels(limits: Limits) -> Mapping[str, int]:
    """Return the links and lanes that the site states, by field of GpuRecord."""
    stated = {"links": limits.reference.get("nvlinks"), "width": limits.reference.get("pcie-width")}
    return {level: int(float(value)) for level, value in stated.items() if value}


def unlike_reference(facts: Facts, limits: Limits) -> Iterable[Cause]:
    """GPUs that differ from what the site expects of all of them. What a GPU does not report is not compared."""
    for name, wanted in limits.reference.items():
        reference = REFERENCES[name]
        for series in facts.of(reference.family, **reference.labels):
            value = reference.value(series)
            fault = {"fault": reference.fault, "uuid": series.labels.get("uuid", "")}
            if value and value != wanted and not facts.of("gpu_fault_timestamp_seconds", **fault):
                yield series.gpu, {"name": name, "value": value, "wanted": wanted}


_FULL_STATE = 2
"""The highest performance state in which a GPU is meant to compute."""


def _is_light(facts: Facts, uuid: str) -> bool:
    """Return whether light work alone lets the GPU save power: no reason lowers its clocks.

    Where its performance state is not reported, its memory clock shows it.
    """
    state = facts.value("gpu_performance_state", uuid=uuid)
    memory, most = (facts.value(f"gpu_clock_{of}hertz", uuid=uuid, domain="memory") for of in ("", "max_"))
    saves = state > _FULL_STATE if state is not None else bool(memory and most and memory < _LOW * most)
    return saves and not any(series.value for series in facts.of("gpu_throttle_active", uuid=uuid))


def find_low_power_limits(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """A power limit below half of its default."""
    for series in facts.of("gpu_power_limit_watts"):
        maximum = facts.value("gpu_power_default_limit_watts", uuid=series.labels["uuid"])
        if maximum and series.value < _LOW * maximum:
            yield series.gpu, {"value": f"{series.value:g}", "most": f"{maximum:g}"}


def find_limited(facts: Facts, _limits: Limits) -> Iterable[Cause]:
    """A clock under load below half of its maximum."""
    for series in facts.of("gpu_clock_hertz", domain="sm"):
        uuid = series.labels["uuid"]
        maximum = facts.value("gpu_clock_max_hertz", uuid=uuid, domain="sm")
        busy = facts.value("gpu_utilization_ratio", uuid=uuid) or 0.0
        watts, most = (facts.value(f"gpu_power_{name}watts", uuid=uuid) for name in ("", "default_limit_"))
        full = watts is not None and most is not None and watts >= _ALL_POWER * most  # only its power limits it
        if not maximum or busy <= BUSY or full or _is_light(facts, uuid):
            continue
        if series.value < _LOW * maximum:
            yield series.gpu, {"value": _format_mhz(series), "most": f"{maximum / _MHZ:g}"}
