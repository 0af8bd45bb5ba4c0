"""A few simulated nodes that stand for a thousand: a copy tells what its mould tells, of GPUs and jobs of its own.

Jobs come and go: after half an hour those of a copy, or of copies that share them, have other names, some every minute.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

from exporter.config.load import load
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.exposition.page import Renderer

GROUP = 8
"""Copies that share the Slurm jobs of their mould: jobs of up to 64 GPUs. Pods are each copy's own."""
JOB_MINUTES = 30
_APART = 7
"""Minutes that the jobs of one copy or group end before those of the next."""
SPECS = (
    "8xH200:8*training;scheduler=slurm",
    "8xH100:8*training;scheduler=slurm",
    "8xH100:6*training,1*straggler,1*storage-bound;scheduler=slurm",
    "8xA100:4*input-bound,4*communication-bound;scheduler=slurm",
    "8xH200:4*training,4*inference;scheduler=kubernetes",
    "8xH100:4*training,2*allocated-idle,2*free;scheduler=kubernetes",
    "8xL40S:6*inference,1*notebook,1*free;scheduler=kubernetes",
    "8xH100:7*training,1*thermal;scheduler=kubernetes",
)
ONE_JOB = tuple(f"8xH200:8*storage-bound;duty=0.1;scheduler={scheduler}" for scheduler in ("slurm", "kubernetes"))
"""Little used: of nodes that run one Slurm job together, and of nodes that run a pod each of one workload."""
_NODE, _POD_TURN, _JOB_TURN = "\x00", "\x01", "\x02"
"""Where the number of the copy goes, and the turn of its pods and jobs: characters that no exposition holds."""
_UUID = re.compile(r'(uuid="(?:GPU|MIG)-)[0-9a-f]{8}')
_POD = re.compile(r'(pod="|workload="[^":/]+/)(?=[^"])')
_OWN_POD = re.compile(r'(pod=")(?=[^"])')
_SIMULATED = re.compile(r"(?m)^(gpu_exporter_simulated) 1.0$")
"""Copies stand for real nodes: no alert says that all are simulated."""
_JOB = re.compile(r'(slurm_job="|workload="slurm:)(?=\d)')


class Mould:
    """One simulated node that runs, as `gpu-exporter --simulate` does. With `one_job` its copies run one job all."""

    def __init__(
        self,
        spec: str,
        number: int,
        *,
        one_job: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._one_job = one_job
        self._clock = clock
        arguments = ["--simulate", f"{spec};node=mould{number};seed={number}"]
        loaded = load(DaemonConfig, arguments, {})
        self._renderer = Renderer(assembly.hidden(loaded))
        self._exporter = assembly.assemble(loaded, lambda _: None)
        self._lock = threading.Lock()
        self._template = ("", -1)

    def start(self) -> None:
        self._exporter.start()

    def stop(self) -> None:
        self._exporter.stop()

    def exposition(self, copy: int) -> bytes:
        """What the copy of that number answers now."""
        group, minute = copy // (GROUP * len(SPECS)) + 1, int(self._clock() // 60)
        pods, jobs = ((minute + number * _APART) // JOB_MINUTES % 1000 for number in (copy, group))
        text = self._current().replace(_NODE, f"{copy:08x}").replace(_POD_TURN, f"{pods}")
        return text.replace(_JOB_TURN, f"{group}{jobs:03d}").encode()

    def _current(self) -> str:
        snapshot = self._exporter.snapshot
        with self._lock:
            if self._template[1] != snapshot.status.cycles:
                text = self._renderer.render(snapshot.blocks, "")[1].decode()
                self._template = (_template(text, one_job=self._one_job), snapshot.status.cycles)
            return self._template[0]


def _template(text: str, *, one_job: bool) -> str:
    text = _SIMULATED.sub(r"\g<1> 0.0", _UUID.sub(rf"\g<1>{_NODE}", text))
    if one_job:
        return _OWN_POD.sub(rf"\g<1>n{_NODE}-", text)
    text = _POD.sub(rf"\g<1>n{_NODE}-{_POD_TURN}-", text)
    return _JOB.sub(rf"\g<1>{_JOB_TURN}", text)
