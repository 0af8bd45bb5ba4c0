"""What to change, ranked by the GPU hours it could give back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.ledger.states import BY_STATE, POSSIBLY_LOST
from exporter.ledger.states.state import State
from exporter.tools.report.definitions import BUSY, LOST, Hours, held, lost, utilization
from exporter.tools.report.model import Advice, DeviceUse

_WORTH_SAYING = 0.02
"""Of the held hours: less is left unsaid."""
_LITTLE_MEMORY = 0.25
"""Of a GPU's memory, at its peak: below it, with the GPU mostly idle, a part of a GPU would do."""
_LITTLE_USE = 0.3
_FULL = 0.92
"""Of a GPU's memory, at its peak: above it a batch cannot grow by much."""

BETTER = tuple(state for state in BUSY if state not in LOST and state != "computing")
"""Kernels ran, and could run faster: how much of these hours a change gives back nobody can say beforehand."""


def of_states(hours: Hours, devices: Sequence[DeviceUse] = (), *, of_held: float | None = None) -> tuple[Advice, ...]:
    """The ledger's own advice for each wasted state, then for states that could be better; the largest first.

    `of_held` is what was held where `hours` are a part of it.
    """
    least = _WORTH_SAYING * (held(hours) if of_held is None else of_held)
    return tuple(
        Advice(state, hours[state], _advice(BY_STATE[state], devices))
        for group in (LOST, POSSIBLY_LOST, BETTER)
        for state in sorted(group, key=lambda name: -hours.get(name, 0.0))
        if hours.get(state, 0.0) > max(least, 0.0)
    )


def _advice(state: State, devices: Sequence[DeviceUse]) -> str:
    """An advice about batches names how much GPU memory there is for larger ones."""
    peaks = [each.memory_peak_bytes / each.memory_total_bytes for each in devices if each.memory_peak_bytes
             and each.memory_total_bytes]  # fmt: skip
    if not state.advice_when_full or not peaks:
        return state.advice
    text = state.advice_when_full if max(peaks) > _FULL else state.advice
    return f"{text} (At its peak {max(peaks):.0%} of a GPU's memory was in use.)"


def of_job(hours: Hours, devices: Sequence[DeviceUse], *, moved: bool = False) -> tuple[Advice, ...]:
    """The above, and what only the sight of all its GPUs shows. Who moved had some after others: none was too many."""
    unused = () if moved else _unused(devices)
    return (*unused, *of_states(hours, devices), *_too_large(devices))


def _unused(devices: Sequence[DeviceUse]) -> Iterable[Advice]:
    idle = [device for device in devices if utilization(device.hours) == 0]
    if idle and len(idle) < len(devices):
        hours = sum((lost(device.hours) or 0.0) for device in idle)
        used = len(devices) - len(idle)
        yield Advice(
            "unused",
            hours,
            f"{len(idle)} of {len(devices)} GPUs never ran a kernel: ask for {used}, or start a process for each.",
        )


def _too_large(devices: Sequence[DeviceUse]) -> Iterable[Advice]:
    for device in devices:
        peak, size, use = device.memory_peak_bytes, device.memory_total_bytes, utilization(device.hours)
        if not (peak and size and use is not None and peak < _LITTLE_MEMORY * size and use < _LITTLE_USE):
            return
    if devices:
        yield Advice(
            "too_large",
            sum((lost(device.hours) or 0.0) for device in devices),
            "No GPU was used for more than a quarter of its memory, nor much of its time: a MIG slice, a shared GPU or"
            " a smaller model may be enough.",
        )
