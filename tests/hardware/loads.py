"""Programs that load the GPU, each a process of its own, so that the driver and the exporter see it as one."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

_PROGRAM = Path(__file__).with_name("torch_load.py")
_START = 180.0
"""Seconds for torch to be loaded and the GPU to be made ready."""
_END = 30.0


@dataclass
class Running:
    """A load at work. `said` are the lines of its output so far, the first is "ready"."""

    process: subprocess.Popen[str]
    said: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    arrived: queue.Queue[Mapping[str, Any] | None] = field(default_factory=queue.Queue)

    @property
    def pid(self) -> int:
        return self.process.pid

    def history(self, name: str) -> list[tuple[float, float]]:
        """What it counted so far, by time."""
        self._take()
        return [(float(line["time"]), float(line[name])) for line in self.said]

    def command(self, line: str) -> Mapping[str, Any]:
        """Give it a line of input and wait for the "mark" that answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.wait("mark", _END)

    def wait(self, event: str, seconds: float) -> Mapping[str, Any]:
        while True:
            try:
                line = self.arrived.get(timeout=seconds)
            except queue.Empty:
                raise TimeoutError(f"the load did not say {event!r} within {seconds:g} s") from None
            if line is None:
                raise RuntimeError(f"the load ended with status {self.process.wait()} before it said {event!r}")
            self.said.append(line)
            if line["event"] == event:
                return line

    def _take(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                line = self.arrived.get_nowait()
                if line is None:
                    self.arrived.put(None)  # for `wait`, which then need not wait
                    return
                self.said.append(line)


class Loads(Protocol):
    """Where loads come from. `start` gives None where there is no such load: what needs it is then not measured."""

    @property
    def name(self) -> str: ...

    def start(self, kind: str, *numbers: float) -> contextlib.AbstractContextManager[Running | None]: ...


@dataclass(frozen=True, slots=True)
class ProgramLoads:
    """Loads that `command KIND NUMBER…` makes, as `torch_load.py` does."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]

    @contextlib.contextmanager
    def start(self, kind: str, *numbers: float) -> Iterator[Running | None]:
        command = [*self.command, kind, *map(str, numbers)]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self.environment)
        running = Running(process)
        reader = threading.Thread(target=_read, args=(running,), daemon=True)
        reader.start()
        try:
            running.wait("ready", _START)
            yield running
        finally:
            _end(process)
            reader.join(_END)


def torch_loads(index: int) -> ProgramLoads:
    """On GPU `index` by NVML's order, which is the PCI bus's. Leaves the program where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        raise SystemExit("torch is missing: run with a Python that has it, or say --load none")
    visible = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": str(index)}
    return ProgramLoads("torch", (sys.executable, str(_PROGRAM)), {**os.environ, **visible})


class NoLoads:
    """Nothing runs: for a driver without a GPU behind it, to see that the measurements run at all."""

    name = "none"

    @contextlib.contextmanager
    def start(self, kind: str, *numbers: float) -> Iterator[Running | None]:
        del kind, numbers
        yield None


def _read(running: Running) -> None:
    assert running.process.stdout is not None
    with running.process.stdout as lines:
        for line in lines:
            if line.startswith("{"):
                running.arrived.put(json.loads(line))
    running.arrived.put(None)


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
