"""What adds up over time: the wave behind a pattern, and totals over episodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.tools.simulator.behaviour import Channel, Role, Wave, behaviour
from exporter.tools.simulator.gpu import Step, Track
from exporter.tools.simulator.models import MODELS
from exporter.tools.simulator.patterns import PATTERNS

WAVES = st.builds(
    Wave,
    period=st.floats(0.05, 100),
    duty=st.floats(0, 1),
    jitter=st.floats(0, 0.5),
    seed=st.integers(0, 1000),
)


@given(WAVES, st.floats(0, 1e6), st.floats(0, 1e3))
def test_active_time_grows_and_never_faster_than_time(wave: Wave, time: float, span: float) -> None:
    grown = wave.active(time + span) - wave.active(time)

    assert -1e-6 <= grown <= span + 1e-6


@given(WAVES, st.integers(1, 50))
def test_jitter_leaves_no_trace_in_the_mean(wave: Wave, pairs: int) -> None:
    span = 16 * pairs * wave.period

    assert wave.active(span) / span == pytest.approx(wave.duty, abs=1e-6)


@given(WAVES, st.floats(0, 1e4))
def test_active_time_is_the_integral_of_being_on(wave: Wave, start: float) -> None:
    steps = 400
    width = 2 * wave.period / steps
    on = sum(wave.on(start + (number + 0.5) * width) for number in range(steps)) * width

    assert wave.active(start + 2 * wave.period) - wave.active(start) == pytest.approx(on, abs=6 * width)


def _step(time: float) -> Step:
    """Busy and free in turns of 100 s."""
    role = Role(PATTERNS["training"], 1) if int(time // 100) % 2 == 0 else None
    return Step(behaviour(MODELS["H200"], role, ()), (time // 100 + 1) * 100)


def test_looking_back_gives_what_was_there() -> None:
    track = Track(_step)
    times = [10.0 * number for number in range(400)]
    ahead = [track.total(Channel.ENERGY, time) for time in times]

    assert ahead == sorted(ahead)
    assert [track.total(Channel.ENERGY, time) for time in reversed(times)] == list(reversed(ahead))
    assert track.total(Channel.BUSY, 200.0) == track.total(Channel.BUSY, 100.0) == pytest.approx(97, abs=3)


def test_a_long_history_keeps_few_episodes() -> None:
    track = Track(_step)

    track.total(Channel.BUSY, 1e6)

    assert len(track._episodes) < 20
