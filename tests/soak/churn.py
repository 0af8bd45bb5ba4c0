"""What comes and goes in the long run: real processes of ever new users, each on a simulated GPU for some cycles."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from exporter.driver.interface import Device, Driver, Record, UnsupportedError, XidEvent

GIB = 2**30
FIRST_USER, USERS = 20_000, 40_000
_NURSERY = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        os.setgid(int(line)); os.setuid(int(line))
        os.execv("/bin/sleep", ["sleep", "3600"])
    print(pid, flush=True)
"""
"""A small program that makes children: a fork of this one would copy the tables of all its memory each time."""


class Nursery:
    """Makes processes, each of a user of its own, and ends them."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", _NURSERY]
        self._maker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.made = 0

    def start(self) -> int:
        assert self._maker.stdin is not None
        assert self._maker.stdout is not None
        self._maker.stdin.write(f"{FIRST_USER + self.made % USERS}\n")
        self._maker.stdin.flush()
        self.made += 1
        return int(self._maker.stdout.readline())

    def end(self, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        self._maker.communicate()


class Churn:
    """Some processes, each of which gives way to the next after `life` cycles; not all at once."""

    def __init__(self, nursery: Nursery, slots: int, life: int) -> None:
        self._nursery = nursery
        self._life = life
        self.pids = [nursery.start() for _ in range(slots)]

    def turn(self, number: int) -> None:
        """To be called before cycle `number`."""
        for slot, pid in enumerate(self.pids):
            if (
                number + slot
            ) % self._life == self._life // 2:  # whoever looks at a round number finds none that is new
                self._nursery.end(pid)
                self.pids[slot] = self._nursery.start()

    def close(self) -> None:
        for pid in self.pids:
            self._nursery.end(pid)


@contextmanager
def churn(slots: int, life: int) -> Iterator[Churn]:
    nursery = Nursery()
    try:
        made = Churn(nursery, slots, life)
        yield made
        made.close()
    finally:
        nursery.close()


class RealProcesses(Driver):
    """Another driver, but for the processes on its GPUs."""

    simulated = True

    def __init__(self, driver: Driver, pids: Callable[[int], Sequence[int]]) -> None:
        self._driver = driver
        self._pids = pids

    def open(self) -> None:
        self._driver.open()

    def close(self) -> None:
        self._driver.close()

    def devices(self) -> tuple[Device, ...]:
        return tuple(_Gpu(device, self._pids) for device in self._driver.devices())

    def call(self, function: str, *args: Any) -> Any:
        return self._driver.call(function, *args)

    def events(self, timeout: float) -> tuple[XidEvent, ...]:
        return self._driver.events(timeout)


class _Gpu(Device):
    def __init__(self, device: Device, pids: Callable[[int], Sequence[int]]) -> None:
        self._device = device
        self._pids = pids
        self.index, self.uuid = device.index, device.uuid
        self.pci_bus_id, self.minor = device.pci_bus_id, device.minor

    def call(self, function: str, *args: Any) -> Any:
        if function == "nvmlDeviceGetComputeRunningProcesses":
            return tuple(Record(pid=pid, usedGpuMemory=GIB) for pid in self._pids(self.index))
        if function in {"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses"}:
            return ()
        if function in {"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessesUtilizationInfo"}:
            raise UnsupportedError(function)
        return self._device.call(function, *args)
