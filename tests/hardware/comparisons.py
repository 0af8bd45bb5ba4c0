"""The exporter's quantities beside a second source of the same, each measured at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporter.collectors.gpm import GPM
from exporter.collectors.utilization import UTILIZATION
from exporter.driver.interface import Device
from tests.hardware import expected, smi
from tests.hardware.bench import Bench, Following, Reader, watch
from tests.hardware.loads import Running
from tests.hardware.verdict import Verdict

_DUTIES = (10.0, 30.0, 50.0, 90.0)
_SM, _MEMORY = 1, 2
"""NVML_CLOCK_SM, NVML_CLOCK_MEM."""
_INSTANT_POWER = ((186, 0),)
_GIB_TAKEN = 6.0
_MIB = 1 << 20


def measure(bench: Bench) -> None:
    """All rows go into `verdicts`; what takes longest comes last."""
    rows: list[Verdict] = []

    def add(found: Sequence[Verdict]) -> None:
        rows.extend(found)
        bench.keep("verdicts", [row.plain() for row in rows])

    bench.keep("nvidia_smi", "asked" if smi.program() else "not on this machine")
    add(_pcie(bench))
    add(_copy(bench))
    add(_memory(bench))
    add(_dense(bench))
    for percent in _DUTIES:
        add(_duty(bench, percent))


def _did(running: Running | None) -> dict[str, list[tuple[float, float]]]:
    names = ("steps", "kernel_seconds", "flops", "bytes")
    return {name: running.history(name) for name in names} if running else {}


def _duty(bench: Bench, percent: float) -> list[Verdict]:
    following = Following(bench.device, UTILIZATION)

    def read() -> Mapping[str, float | None]:
        reading = following.read()
        return {"busy": reading.busy.total if reading and reading.busy else None,
                "polled": reading.gpu if reading else None}  # fmt: skip

    with bench.load("duty", percent) as running, watch(read, 0.5) as ours:
        bench.rest(30.0)
        did = _did(running)
    return expected.utilization(percent, ours, did)


def _dense(bench: Bench) -> list[Verdict]:
    with bench.load("dense") as running, smi.watching(bench.index, smi.program()) as told:
        with watch(_gauges(bench.device), 0.1) as ours, watch(_units(bench.device), 1.0) as units:
            bench.rest(20.0)
            did = _did(running)
        ready: Mapping[str, Any] = running.said[0] if running else {}
    together = {**ours, **units}
    sms, capability = int(ready.get("multiprocessors", 0)), str(ready.get("capability", ""))
    return [
        *expected.energy(ours, told),
        *expected.activity(together, did, sms, capability),
        *expected.second_reader(ours, told),
    ]


def _copy(bench: Bench) -> list[Verdict]:
    device = bench.device
    with bench.load("copy") as running, watch(_gauges(device), 0.2) as ours, watch(_units(device), 1.0) as units:
        bench.rest(10.0)
        did = _did(running)
    return expected.bandwidth({**ours, **units}, did, device.get("nvmlDeviceGetMemoryBusWidth"))


def _pcie(bench: Bench) -> list[Verdict]:
    with bench.load("pcie") as running, watch(_units(bench.device), 1.0) as units:
        bench.rest(10.0)
        did = _did(running)
    return expected.pcie(units, did)


def _memory(bench: Bench) -> list[Verdict]:
    """What a process takes more by the driver, beside what torch says it reserved more."""
    name, against = "gpu_process_memory_bytes, growth", "torch's reserved memory"
    with bench.load("memory") as running:
        if running is None:
            return [Verdict(name, "B", None, None, against, 1.0)]
        before = _held(bench.device, running.pid)
        reserved = float(running.said[0]["reserved"])
        mark = running.command(str(_GIB_TAKEN))
        after = _held(bench.device, running.pid)
    bench.keep("context_bytes", None if before is None else before - reserved)
    taken = None if before is None or after is None else float(after - before)
    return [Verdict(name, "B", taken, float(mark["reserved"]) - reserved, against, 1.0)]


def _held(device: Device, pid: int) -> int | None:
    processes = device.get("nvmlDeviceGetComputeRunningProcesses") or ()
    return next((process.usedGpuMemory for process in processes if process.pid == pid), None)


def _gauges(device: Device) -> Reader:
    """Readings of the driver by the names `smi.QUERY` has, and the energy counter."""

    def read() -> Mapping[str, float | None]:
        rates, memory = device.get("nvmlDeviceGetUtilizationRates"), device.get("nvmlDeviceGetMemoryInfo")
        instant = device.get("nvmlDeviceGetFieldValues", _INSTANT_POWER)
        power = _thousandth(device.get("nvmlDeviceGetPowerUsage"))
        return {
            "energy": _thousandth(device.get("nvmlDeviceGetTotalEnergyConsumption")),
            "power": power,
            "power_average": power,
            "power_instant": _thousandth(instant[0] if instant else None),
            "power_limit": _thousandth(device.get("nvmlDeviceGetEnforcedPowerLimit")),
            "utilization": rates.gpu if rates else None,
            "memory_used": memory.used / _MIB if memory else None,
            "temperature": device.get("nvmlDeviceGetTemperatureV"),
            "sm_clock": device.get("nvmlDeviceGetClockInfo", _SM),
            "memory_clock": device.get("nvmlDeviceGetClockInfo", _MEMORY),
        }

    return read


def _units(device: Device) -> Reader:
    """Totals of GPM's activities, and of bytes over PCIe in both directions."""
    following = Following(device, GPM)

    def read() -> Mapping[str, float | None]:
        reading = following.read()
        if reading is None:
            return {}
        seconds = reading.activity.seconds if reading.activity else {}
        bus = reading.pcie.totals.values()
        return {**{unit: seconds.get(unit) for unit in ("sm", "tensor", "dram")}, "pcie": sum(bus) if bus else None}

    return read


def _thousandth(milli: float | None) -> float | None:
    return None if milli is None else milli / 1000
