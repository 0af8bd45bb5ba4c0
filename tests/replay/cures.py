"""The faults a node keeps, on a compressed clock: what is planted as a cure is what the exporter has for evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from exporter.collectors.xid import XidReport
from exporter.faults.families import FaultStatus
from exporter.faults.latch import advance_faults
from exporter.faults.model import Acknowledgement, FaultState, Observation, ObservedGpu
from exporter.faults.watch import observed_gpu
from exporter.sampling.gpus import Gpu


@dataclass(frozen=True, slots=True)
class Cure:
    """At a Unix time: `reset`, `reboot` (of the whole node), `replace` or `acknowledge`."""

    kind: str
    gpu: int
    time: float


class KeptFaults:
    """Lets the exporter's latch look at every sample, and makes the driver's counters begin anew with a reset."""

    def __init__(self, cures: Iterable[Cure]) -> None:
        self._cures = tuple(cures)
        self._state = FaultState()
        self._last = float("-inf")
        self._began: dict[int, ObservedGpu] = {}
        """What the counters stood at when they began anew, by GPU."""

    def observe(
        self, now: float, gpus: Iterable[Gpu], xids: Mapping[str, Mapping[int, XidReport]], *, driver: bool
    ) -> FaultStatus:
        happened = [cure for cure in self._cures if cure.time <= now]
        reboots = sum(cure.kind == "reboot" for cure in happened)
        looked: list[ObservedGpu] = []
        for gpu in gpus:
            readings = {name: cached.reading for name, cached in _readings(gpu).items()}
            here = observed_gpu(
                gpu.device,
                readings,
                xids.get(gpu.device.uuid, {}),
                up=gpu.answers(now, 10.0),
                failure=gpu.failure,
            )
            looked.append(self._after(here, [c for c in happened if c.kind == "reboot" or c.gpu == here.index]))
        said = tuple(
            Acknowledgement(str(c.gpu), "", "test", "mended", c.time) for c in happened if c.kind == "acknowledge"
        )
        self._state = advance_faults(self._state, Observation(now, f"boot-{reboots}", driver, tuple(looked), (), said))
        self._last = now
        expected = {"history": len(self._state.devices)} if self._state.devices else {}
        return FaultStatus(self._state.faults, self._state.switches, expected)

    def _after(self, here: ObservedGpu, cures: Iterable[Cure]) -> ObservedGpu:
        """What the driver says of a GPU after these cures."""
        anew = [cure for cure in cures if cure.kind != "acknowledge"]
        if any(cure.time > self._last for cure in anew):
            self._began[here.index] = here
        if not anew or here.index not in self._began:
            return here
        began, last = self._began[here.index], max(cure.time for cure in anew)
        swaps = sum(cure.kind == "replace" for cure in anew)
        return replace(
            here,
            uuid=f"{here.uuid}-{swaps}" if swaps else here.uuid,
            joules=_since(here.joules, began.joules),
            uncorrected=_since(here.uncorrected, began.uncorrected),
            xids={xid: time for xid, time in here.xids.items() if time > last},
        )


def _since(now: float | None, began: float | None) -> float | None:
    return None if now is None else now - (began or 0.0)


def _readings(gpu: Gpu) -> Mapping[str, Any]:
    state = gpu.states.get(gpu.device.uuid)
    return state.readings if state else {}
