"""The driver's life: opened when it is there, enumerated now and then, dropped and opened again when it goes."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from exporter.core.clock import MonotonicClock, monotonic_time
from exporter.core.threads import Threads
from exporter.driver.interface import Device, Driver, DriverError, DriverGoneError, DriverMismatchError
from exporter.faults.findings import RELEASED

log = logging.getLogger(__name__)

_RETRY_SECONDS = (1.0, 2.0, 5.0, 10.0, 30.0)
_ENUMERATE_SECONDS = 30.0
"""Seconds between enumerations while all is well: MIG instances come and go, GPUs are added."""
_ENUMERATE_MISSING_SECONDS = 5.0
"""Seconds between enumerations while a known GPU is missing or refused: only an enumeration shows that it is back."""


@dataclass(frozen=True, slots=True)
class DriverState:
    """The driver's GPUs and versions. `error` is its code while it is not open, empty while it is."""

    devices: tuple[Device, ...] = ()
    versions: tuple[str, str, str] = ("", "", "")
    """Driver, NVML and CUDA."""
    error: str = "NOT_OPENED"
    mismatch: bool = False
    refused: tuple[tuple[int, str], ...] = ()
    """Index and code of the GPUs that the driver counts and gives no handle for."""


class DriverConnection:
    """Opens and enumerates on a thread of its own, since both can hang; the sampler reads the last `state`."""

    def __init__(self, driver: Driver, clock: MonotonicClock = monotonic_time) -> None:
        self._driver = driver
        self._clock = clock
        self._wake = threading.Condition()
        self._failures = 0
        self._seen: dict[str, str] = {}
        """Uuid of the last GPU at each place, which is a PCI bus id; of a GPU without one the uuid itself."""
        self._reopen = True
        self._asked = False
        self._stopped = False
        self._released: bool = False
        self.state = DriverState()
        self.first = threading.Event()
        """Set once the first attempt has ended, well or not."""

    def start(self, threads: Threads | None = None) -> None:
        (threads or Threads()).start("driver", self._run)

    def refresh(self, failure: DriverError) -> None:
        """Enumerate again soon; open again first where `failure` reports that the driver itself has gone."""
        with self._wake:
            self._reopen = self._reopen or isinstance(failure, DriverGoneError)
            if isinstance(failure, DriverGoneError):
                self.state = DriverState(
                    (), self.state.versions, failure.code, isinstance(failure, DriverMismatchError)
                )
            self._asked = True
            self._wake.notify_all()

    def release(self, *, on: bool) -> None:
        """Let go of the driver, so that GPUs can be reset, split or given another driver; or take it up again."""
        with self._wake:
            if on is not self._released:
                self._released = on
                self._asked = self._reopen = True
                self._wake.notify_all()

    def stop(self) -> None:
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    @property
    def pause(self) -> float:
        """Seconds until the next attempt, unless one is asked for."""
        if self._failures:
            return _RETRY_SECONDS[min(self._failures, len(_RETRY_SECONDS)) - 1]
        missing = self.state.refused or set(self._seen.values()).difference(each.uuid for each in self.state.devices)
        return _ENUMERATE_MISSING_SECONDS if missing else _ENUMERATE_SECONDS

    def _run(self) -> None:
        while not self._stopped:
            self._let_go() if self._released else self._attempt()
            self.first.set()
            with self._wake:
                if not self._stopped and not (self._asked and not self._failures):
                    self._wake.wait(self.pause)
                asked, self._asked = self._asked, False
            if asked and not self._stopped:  # a GPU that is lost for good is not enumerated at every cycle
                with self._wake:
                    self._wake.wait(1.0)

    def _let_go(self) -> None:
        if self.state.error != RELEASED:
            log.info("lets go of the driver: the file of maintenance is there")
            self._driver.close()
            self.state = DriverState((), self.state.versions, RELEASED)

    def _attempt(self) -> None:
        reopen, self._reopen = self._reopen, False
        try:
            if reopen:
                self._driver.close()
                self._driver.open()
            known = DriverState().versions if reopen else self.state.versions
            devices, versions = self._driver.devices(), _driver_versions(self._driver, known)
            state = DriverState(devices, versions, "", refused=self._driver.refused)
        except DriverError as error:
            self._failures += 1
            if self._failures == 1 and not reopen and not isinstance(error, DriverGoneError):
                log.warning("GPUs cannot be listed (%s), the driver is asked again: %s", error.code, error)
                return  # they answer as before: one odd answer to this question does not take them all away
            self._reopen = True
            state = DriverState((), self.state.versions, error.code, isinstance(error, DriverMismatchError))
            if self.state.error != error.code:
                log.warning("driver not available (%s): %s", error.code, error)
        else:
            if state.refused and state.refused != self.state.refused:
                log.warning("GPUs without a handle: %s", ", ".join(f"{i} ({code})" for i, code in state.refused))
            if self.state.error or len(state.devices) != len(self.state.devices):
                count = len(state.devices)
                log.info("driver %s shows %d %s", state.versions[0] or "?", count, "GPU" if count == 1 else "GPUs")
            self._failures = 0
            self._seen |= {device.pci_bus_id or device.uuid: device.uuid for device in state.devices}
        self.state = state


def _driver_versions(driver: Driver, known: tuple[str, str, str]) -> tuple[str, str, str]:
    """Driver, NVML and CUDA; what the open driver does not say for once is as it was `known`."""

    def ask(function: str) -> str:
        try:
            return str(driver.call(function))
        except DriverError:
            return ""

    cuda = ask("nvmlSystemGetCudaDriverVersion")
    readable = f"{int(cuda) // 1000}.{int(cuda) % 1000 // 10}" if cuda.isdigit() else cuda
    found = ask("nvmlSystemGetDriverVersion"), ask("nvmlSystemGetNVMLVersion"), readable
    return found[0] or known[0], found[1] or known[1], found[2] or known[2]
