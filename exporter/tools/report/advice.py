"""Advice on what to change, ranked by the GPU hours it could give back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.ledger.states import BY_STATE, POSSIBLY_LOST
from exporter.ledger.states.state import State
from exporter.tools.report import words
from exporter.tools.report.definitions import BUSY, LOST, Hours, allocated, lost, utilization
from exporter.tools.report.model import Advice, DeviceUse, NodeUse

_WORTH_SAYING = 0.02
"""Fraction of the allocated hours: less is left unsaid."""
_LITTLE_MEMORY = 0.25
"""Fraction of a GPU's memory, at its peak: below it, with the GPU mostly idle, a part of a GPU would do."""
_LITTLE_USE = 0.3
_INPUT = ("wait_data", "wait_cpu")
_COPIES_MUCH = 1e9
"""Bytes per second from the host to a GPU: more than the samples of most training."""
_FULL = 0.92
"""Fraction of a GPU's memory, at its peak: above it a batch cannot grow by much."""

BETTER = tuple(state for state in BUSY if state not in {*LOST, *POSSIBLY_LOST, "computing"})
"""Kernels ran, and could run faster: how much of these hours a change gives back nobody can say beforehand."""


_POSSIBLE = (*BETTER, "wait_cpu", "wait_other", "wait_peer", "wait_collective", "possible_spin")
_UNPINNED = (
    "{} went from host to GPU while a CPU was full and kernels waited: use pinned memory,"
    " `DataLoader(pin_memory=True)` and `tensor.to(device, non_blocking=True)`."
)
_NOT_KNOWN = (
    "This GPU does not report its tensor cores. If the program computes in FP32, use bf16 (`torch.autocast`)"
    " or TF32 (`torch.set_float32_matmul_precision('high')`): several times faster on tensor cores."
)
_PROFILE = (
    "See where the time goes: `nsys profile --trace=cuda,nvtx,osrt --delay=60 --duration=30 --output=profile"
    " python train.py`; or in the program `with torch.profiler.profile() as p: train_step()` and"
    " `print(p.key_averages().table(sort_by='cuda_time_total', row_limit=20))`."
)


def of_states(hours: Hours, devices: Sequence[DeviceUse] = (), *, of_whole: float | None = None) -> tuple[Advice, ...]:
    """The ledger's own advice for each wasted state, then for states that could be better; the largest first.

    `of_whole` is what was allocated where `hours` are a part of it.
    """
    least = _WORTH_SAYING * (allocated(hours) if of_whole is None else of_whole)
    return tuple(
        Advice(state, hours[state], _batch_advice(BY_STATE[state], devices))
        for group in (LOST, POSSIBLY_LOST, BETTER)
        for state in sorted(group, key=lambda name: -hours.get(name, 0.0))
        if hours.get(state, 0.0) > max(least, 0.0)
    )


def _batch_advice(state: State, devices: Sequence[DeviceUse]) -> str:
    """An advice about batches names how much GPU memory there is for larger ones."""
    peaks = [each.memory_peak_bytes / each.memory_total_bytes for each in devices if each.memory_peak_bytes
             and each.memory_total_bytes]  # fmt: skip
    if not state.advice_when_full or not peaks:
        return state.advice
    text = state.advice_when_full if max(peaks) > _FULL else state.advice
    free = min(each.memory_total_bytes - each.memory_peak_bytes for each in devices if each.memory_peak_bytes
               and each.memory_total_bytes)  # fmt: skip
    return f"{text} (At its peak {words.percent(max(peaks))} of a GPU's memory was used, {words.gib(free)} were free.)"


def of_job(
    hours: Hours, devices: Sequence[DeviceUse], nodes: Sequence[NodeUse] = (), *, moved: bool = False
) -> tuple[Advice, ...]:
    """The above, and what only the sight of all its GPUs shows. Who moved had some after others: none was too many."""
    unused = () if moved else _unused_devices(devices)
    copied = sum([device.copied_bytes or 0.0 for device in devices])
    copies = _UNPINNED.format(words.gib(copied)) if copied >= _COPIES_MUCH * 3600 * allocated(hours) > 0 else ""
    tensor_cores_unknown = bool(devices) and all(each.sm_active is None for each in devices)
    found = (("more_loaders", _INPUT, _idle_cpus(nodes)), ("unpinned", ("wait_cpu",), copies),
             ("mixed_precision", ("computing",), _NOT_KNOWN if tensor_cores_unknown else ""),
             ("profile", _POSSIBLE, _PROFILE))  # fmt: skip
    least = _WORTH_SAYING * allocated(hours)
    amounts = [(state, sum([hours.get(each, 0.0) for each in states]), text) for state, states, text in found]
    more = [Advice(state, amount, text) for state, amount, text in amounts if text and amount > least]
    return (*unused, *of_states(hours, devices), *more, *_too_large(devices))


def _idle_cpus(nodes: Sequence[NodeUse]) -> str:
    """Describe the CPUs and host memory that are left for loader workers on the fullest node."""
    lasted = max([allocated(node.hours) / node.gpus for node in nodes if node.gpus], default=0.0)
    known = [(n.cpu_limit_cores, n.cpu_seconds) for n in nodes if n.cpu_limit_cores and n.cpu_seconds]
    idle = min([limit - used / 3600 / lasted for limit, used in known], default=0.0) if lasted else 0.0
    sizes = [(n.memory_limit_bytes, n.resident_bytes) for n in nodes if n.memory_limit_bytes and n.resident_bytes]
    free = min([limit - used for limit, used in sizes], default=0.0)
    memory = f" and {words.gib(free)} of host memory" if free > 0 else ""
    return f"{idle:.0f} CPUs{memory} were free while GPUs waited: start more loader workers." if idle >= 1.0 else ""


def _unused_devices(devices: Sequence[DeviceUse]) -> Iterable[Advice]:
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
