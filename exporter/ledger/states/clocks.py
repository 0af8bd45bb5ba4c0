"""What kernels lose to lowered clocks."""

from __future__ import annotations

from exporter.ledger.evidence import Evidence
from exporter.ledger.states.state import Certainty, State


def _clock_losses(evidence: Evidence) -> tuple[float, float]:
    """Return what the clocks lost to heat and to the power brake, at most the time each was in force."""
    heat = evidence.of_busy(evidence.signals.throttled_thermal) or 0.0
    brake = evidence.of_busy(evidence.signals.throttled_power_brake) or 0.0
    throttled = heat + brake
    if not throttled or not evidence.clock_lost:
        return 0.0, 0.0
    lost = min(evidence.clock_lost, throttled, 1.0)
    return lost * heat / throttled, lost * brake / throttled


THROTTLED_THERMAL = State(
    name="throttled_thermal",
    title="Throttled by heat",
    step="Check cooling",
    colour="#90090C",
    audience="oncall",
    certainty=Certainty.CERTAIN,
    meaning="What kernels lost to clocks lowered because the GPU or its memory is too hot.",
    signature="The driver's thermal slowdown counter advances; the share is what the SM clock lacks meanwhile",
    advice="Check cooling: inlet temperature, fans, dust, blocked air flow, neighbours' load.",
    of_time="busy",
    needs=(("throttled_thermal", "sm_clock"),),
    claim=lambda evidence, _: _clock_losses(evidence)[0],
)

THROTTLED_POWER_BRAKE = State(
    name="throttled_power_brake",
    title="Power brake",
    step="Check the power supplies",
    colour="#5B1A4D",
    audience="oncall",
    certainty=Certainty.CERTAIN,
    meaning="What kernels lost to clocks lowered by the server's power brake.",
    signature="The driver's power brake counter advances; the share is what the SM clock lacks meanwhile",
    advice="Check power supplies, their redundancy, and the rack's power budget.",
    of_time="busy",
    needs=(("throttled_power_brake", "sm_clock"),),
    claim=lambda evidence, _: _clock_losses(evidence)[1],
)
