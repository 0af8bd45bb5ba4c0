"""Thresholds, mappings and colours, each with the meaning it has on every dashboard."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

from exporter.ledger import palette
from exporter.tools.report.definitions import HIGH, LOW

GREEN, YELLOW, ORANGE, RED, BLUE, GREY = (
    palette.GOOD,
    palette.WATCH,
    palette.WARN,
    palette.BAD,
    palette.INFO,
    palette.NONE,
)

COUNT = units.LocaleFormat
"""All digits, in groups: 1,936 and not 2 K."""


MONEY = COUNT
"""Money in the currency of the site's price file: a unit of Grafana is one currency."""

Steps = tuple[tuple[float | None, str], ...]

PLAIN: Steps = ((None, BLUE),)
NO_FILL: Steps = ((None, "transparent"),)
"""Steps of cells that only their mapping colours."""
TARGET_RATIO: Steps = ((None, RED), (round(LOW / HIGH, 3), ORANGE), (0.995, GREEN))
"""Utilization of allocated GPUs, as a fraction of the target of its class of work: of batch work, 30 % and 70 % of its time. What is
shown as 100 % is green."""
FULL: Steps = ((None, BLUE), (0.9, ORANGE), (0.98, RED))
"""Memory, power: much is normal, all is a warning."""
LOSS: Steps = ((None, GREEN), (0.2, YELLOW), (0.4, ORANGE), (0.6, RED))
"""Fraction of allocated time that was wasted."""
RED_FROM_ONE: Steps = ((None, GREEN), (1, RED))
ORANGE_FROM_ONE: Steps = ((None, GREEN), (1, ORANGE))
WASTE: Steps = ((None, BLUE), (1, ORANGE))
"""GPUs, hours or money: a row with little of it may be one of which little was observed."""
HEAT: Steps = ((None, GREEN), (75, YELLOW), (83, ORANGE), (90, RED))
MARGIN: Steps = ((None, RED), (3, ORANGE), (10, GREEN))
"""Degrees left before the GPU slows itself down."""
FRACTION_OF_TIME: Steps = ((None, GREEN), (0.01, YELLOW), (0.1, ORANGE), (0.3, RED))
"""Steps of time throttled."""
STALENESS: Steps = ((None, GREEN), (10, ORANGE), (60, RED))

SEVERITY = {"critical": RED, "warning": ORANGE, "info": BLUE}


def thresholds(steps: Steps) -> build.ThresholdsConfig:
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=colour) for value, colour in steps])
    )


def thresholds_value(steps: Steps) -> dict[str, object]:
    """The same as the value of an override."""
    return {"mode": "absolute", "steps": [{"color": colour, "value": value} for value, colour in steps]}


def words(table: dict[str, tuple[str, str]]) -> list[model.ValueMapping]:
    """Show values as coloured words: {value: (word, colour)}."""
    return [
        model.ValueMap(
            options={
                value: model.ValueMappingResult(text=word, color=colour, index=index)
                for index, (value, (word, colour)) in enumerate(table.items())
            }
        )
    ]


YES_IS_BAD = words({"0": ("no", GREEN), "1": ("yes", RED)})
YES_IS_GOOD = words({"0": ("no", RED), "1": ("yes", GREEN)})
ANSWERS = words({"0": ("LOST", RED), "1": ("yes", GREEN)})
THROTTLE = words({"0": ("full clocks", GREEN), "1": ("throttled", RED)})
SEVERITIES = words({name: (name, colour) for name, colour in SEVERITY.items()})
# fmt: off
REASONS = {
    "app_clocks": "Clocks as set", "sw_power_cap": "Power cap", "hw_slowdown": "Hardware slowdown",
    "sync_boost": "Sync boost", "sw_thermal": "Heat (software)", "hw_thermal": "Heat (hardware)", "thermal": "Heat",
    "hw_power_brake": "Power brake", "display_clock": "Display clocks", "board_limit": "Board limit",
    "low_utilization": "Low utilization", "reliability": "Reliability",
}
"""Reasons of lowered clocks."""
_RECOVERY = {
    "gpu_reset":       ("Reset the GPU",            RED),
    "node_reboot":     ("Restart the node",         RED),
    "system_reboot":   ("Restart the node",         RED),
    "bus_reset":       ("Reset the PCIe bus",       RED),
    "drain_and_reset": ("Drain, reset when idle",   ORANGE),
    "drain_p2p":       ("End peer work, reset",     ORANGE),
    "recover_imex":    ("Restart nvidia-imex",      ORANGE),
}
RECOVERY = words(_RECOVERY)
"""Actions that the driver asks for."""
RECOVERY_NAMES = {action: text for action, (text, _) in _RECOVERY.items()}
# fmt: on
