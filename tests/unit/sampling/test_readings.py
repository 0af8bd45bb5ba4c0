"""What of a GPU's readings belongs to a pass."""

from __future__ import annotations

from types import SimpleNamespace

from exporter.clock import MonotonicTime
from exporter.collectors.sample_integral import Integral
from exporter.collectors.utilization import Utilization
from exporter.sampling.readings import busy_seconds


def gpu(read_at: float) -> SimpleNamespace:
    reading = Utilization(0.5, 0.1, Integral(total=7.0), None)
    state = SimpleNamespace(readings={"utilization": SimpleNamespace(monotonic=read_at, reading=reading)})
    return SimpleNamespace(reading=True, device=SimpleNamespace(uuid="GPU-a"), states={"GPU-a": state})


def test_reading_of_an_earlier_pass_is_none_of_this_one() -> None:
    now = MonotonicTime(10.0)

    assert busy_seconds(gpu(10.0), now) == 7.0  # type: ignore[arg-type]
    assert busy_seconds(gpu(9.0), now) is None  # type: ignore[arg-type]
