"""One case: how it is played, and which families of the page are looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.contract.cycles.rig import Rig, status_lines


class Case(NamedTuple):
    play: Callable[[], Rig]
    families: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.play.__name__

    def run(self) -> str:
        rig = self.play()
        try:
            lines = "".join(f"{line}\n" for line in status_lines(rig.snapshot.status))
            return f"{rig.text(*self.families)}\n{lines}"
        finally:
            rig.stop()


OWNERS = (
    "gpu_allocation_ratio",
    "gpu_workload_.*",
    "gpu_process_.*",
    "gpu_memory_.*",
    "gpu_exporter_(un|state|series).*",
)
LEDGER = ("gpu(_mig)?_state_seconds_total", "gpu_workload_(gpu|busy|energy).*", "gpu_energy_joules_total")
NODE = (
    "gpu_up",
    "gpu_info",
    "gpu_devices",
    "gpu_driver_info",
    "gpu_exporter_(attr|sampling_cycles|driver|simulated|readings|last|sample|device_sample|xid|thread|web).*",
)
