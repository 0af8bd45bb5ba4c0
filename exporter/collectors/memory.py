"""Device memory, and the window of it that the CPU can address (BAR1)."""

from __future__ import annotations

from exporter.collectors.base import Collector, Pace, Tick
from exporter.collectors.processes import processes_on
from exporter.core.families import Unit, gauge
from exporter.core.record import record
from exporter.driver.interface import Device, UnsupportedError


@record
class Memory:
    """Bytes. `used` is what processes have allocated; `reserved`, the driver's own, is apart where the driver reports it.

    `shared`: with the machine. The driver reports no memory of the GPU then: `used` is the sum of its processes.
    """

    total: int | None
    used: int | None
    free: int | None
    reserved: int | None
    bar1_total: int | None = None
    bar1_used: int | None = None
    shared: bool = False


def read_memory(device: Device, previous: Memory | None, _tick: Tick) -> Memory:
    """The second version of the struct counts reserved memory apart from used (R515); the first has it in used."""
    info = device.get("nvmlDeviceGetMemoryInfo")
    bar1 = device.get("nvmlDeviceGetBAR1MemoryInfo")
    # Memory that was once the GPU's own stays so: the answer may be refused for a moment, or left out as implausible.
    own = previous.total if previous and not previous.shared else None
    if info is None and own is None and (shared := _of_processes(device)) is not None:
        return Memory(device.system_memory, shared, None, None, shared=True)
    if info is None and bar1 is None and own is None:
        raise UnsupportedError("no memory of its own")
    return Memory(
        total=getattr(info, "total", own),
        used=getattr(info, "used", None),
        free=getattr(info, "free", None),
        reserved=getattr(info, "reserved", None),
        bar1_total=getattr(bar1, "bar1Total", None),
        bar1_used=getattr(bar1, "bar1Used", None),
    )


def _of_processes(device: Device) -> int | None:
    """Return the memory of the processes on a GPU, or None where the driver does not list them."""
    try:
        return sum(each.memory_bytes or 0 for each in processes_on(device))
    except UnsupportedError:
        return None


MEMORY: Collector[Memory] = Collector(
    name="memory",
    help="Device memory and BAR1. 2 driver calls every 5 s.",
    pace=Pace.FAST,
    read=read_memory,
    families=(
        gauge("gpu_memory_total_bytes", "Device memory there is.", Unit.BYTES, lambda m: m.total),
        gauge("gpu_memory_used_bytes", "Device memory in use.", Unit.BYTES, lambda m: m.used),
        gauge("gpu_memory_reserved_bytes", "Device memory the driver keeps for itself.", Unit.BYTES, lambda m: m.reserved),
        gauge("gpu_memory_free_bytes", "Device memory not in use.", Unit.BYTES, lambda m: m.free),
        gauge("gpu_bar1_memory_total_bytes", "Window through which CPU and peers address device memory.", Unit.BYTES, lambda m: m.bar1_total),
        gauge("gpu_bar1_memory_used_bytes", "Part of the BAR1 window in use.", Unit.BYTES, lambda m: m.bar1_used),
    ),
)  # fmt: skip
