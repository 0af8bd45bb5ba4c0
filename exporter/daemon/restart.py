"""When only a new process, or a new container, can have the driver back: then the process ends and reports why.

What a container was not given at its start it never gets: the library and the device nodes are put there by the
container toolkit before the program runs. Asking the driver again and again cannot help; whoever supervises the
process (the kubelet, with its back-off) can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.core.clock import MonotonicTime
from exporter.sampling.driver_connection import DriverState

_MISMATCH_PATIENCE = 300.0
"""Seconds to go on reporting a library that does not fit the kernel module, before leaving it to a new process."""

_NOT_GIVEN = {
    "LIBRARY_NOT_FOUND": "the driver's library is not in this container",
    "UNKNOWN": "the driver answers nothing in this container (its device rights were taken away, e.g. by systemd)",
    "NO_PERMISSION": "this container may not open the GPUs' devices",
}
_NO_DEVICES = "DRIVER_NOT_LOADED"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the node shows beside the driver. Asked only when the driver has been away for long."""

    gpus: Callable[[], int | None]
    """How many NVIDIA GPUs the PCI bus shows; None where it cannot be read."""
    module_loaded: Callable[[], bool]


class RestartRule:
    """Given the driver's state now and then; `exit_after` seconds of a lack that a new container may end, 0: never."""

    def __init__(self, exit_after: float, surroundings: Surroundings) -> None:
        self._exit_after = exit_after
        self._surroundings = surroundings
        self._since: dict[str, MonotonicTime] = {}

    def reason(self, state: DriverState, now: MonotonicTime) -> str:
        """Why to end now; empty to stay."""
        if self._lasts("mismatch", state.mismatch, now, _MISMATCH_PATIENCE):
            return "driver library and kernel module differ: leaving, so that a new process loads the new library"
        lacking = state.error in _NOT_GIVEN or state.error == _NO_DEVICES
        if not (self._exit_after and self._lasts("lack", lacking, now, self._exit_after)):
            return ""
        return self._lack(state.error)

    def _lasts(self, what: str, holds: bool, now: MonotonicTime, seconds: float) -> bool:  # noqa: FBT001 - a fact, not a mode
        if not holds:
            self._since.pop(what, None)
            return False
        return now - self._since.setdefault(what, now) >= seconds

    def _lack(self, error: str) -> str:
        if not self._surroundings.gpus():
            return ""  # nobody can give what is not there, or not known to be
        found = _NOT_GIVEN.get(error, "")
        if error == _NO_DEVICES and self._surroundings.module_loaded():
            found = "the kernel module is loaded and its device nodes are not in this container"
        return f"{error}: {found}: leaving, so that a new container is given what this one lacks" if found else ""
