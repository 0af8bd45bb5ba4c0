"""Report the progress of a training or serving program to gpu-exporter. One file, standard library only: copy it.

    from gpu_progress import Progress

    progress = Progress()
    for batch in progress.data(loader):          # time spent waiting for data
        with progress.phase("forward"):
            loss = model(batch)
        with progress.phase("backward"):
            loss.backward()
        progress.step(samples=len(batch))

Reports go to a unix datagram socket without ever waiting: where nobody listens, or the socket is full, the next one
carries the same totals. Nothing here raises, and nothing is written to disk.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

SOCKET = "/run/gpu-exporter/progress.sock"
VERSION = 1
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Phase:
    """Counts the seconds spent inside: a context manager, and a decorator. May not be entered twice at once."""

    __slots__ = ("_began", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> Phase:  # noqa: PYI034 - typing.Self is younger than the Pythons this file runs on
        self._began = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds += time.perf_counter() - self._began

    def __call__(self, function: F) -> F:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


class Progress:
    """Totals of this process since it started. Reports at most once in `interval` seconds.

    `total` is the number of steps to the end; with it the part done and the seconds left are told too. Ranks that work
    on the same data (tensor or pipeline parallel) give the same `group`: their samples then count once.
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        rank: int | None = None,
        total: float | None = None,
        group: str = "",
        interval: float = 1.0,
    ) -> None:
        self._path = path or os.environ.get("GPU_PROGRESS_SOCKET", SOCKET)
        self._rank = _rank() if rank is None else rank
        self._group = group
        self._interval = interval
        self._counters: dict[str, float] = {}
        self._phases: dict[str, Phase] = {}
        self._began = time.monotonic()
        self._due = 0.0
        self._socket: socket.socket | None = None
        self.total = total

    def phase(self, name: str) -> Phase:
        """Give the phase of this name: `data`, `forward`, `backward`, `optimizer`, `communication`, `checkpoint`."""
        found = self._phases.get(name)
        if found is None:
            found = self._phases[name] = Phase()
        return found

    def data(self, loader: Iterable[T]) -> Iterator[T]:
        """The items of a loader; the time it takes to get each is the phase `data`."""
        phase = self.phase("data")
        iterator = iter(loader)
        while True:
            with phase:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def step(self, count: float = 1, **counters: float) -> None:
        """Count steps and what was worked off in them: `samples`, `images`, `tokens`, `requests`, `model_flops`."""
        self.add(steps=count, **counters)

    def add(self, **counters: float) -> None:
        """Count, and report if it is time."""
        for name, value in counters.items():
            self._counters[name] = self._counters.get(name, 0.0) + value
        now = time.monotonic()
        if now >= self._due:
            self._due = now + self._interval
            self.send()

    def send(self) -> bool:
        """Report now; whether somebody took it."""
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.settimeout(0.0)
            self._socket.sendto(json.dumps(self.report()).encode(), self._path)
        except (OSError, ValueError):
            return False
        return True

    def report(self) -> dict[str, Any]:
        """What is sent."""
        report: dict[str, Any] = {"version": VERSION, "pid": os.getpid(), **self._counters}
        if self._rank is not None:
            report["rank"] = self._rank
        if self._group:
            report["group"] = self._group
        if self._phases:
            report["phases"] = {name: round(phase.seconds, 6) for name, phase in self._phases.items()}
        steps = self._counters.get("steps", 0.0)
        if self.total:
            report["total"] = self.total
            if steps:
                report["remaining_seconds"] = max(0.0, (time.monotonic() - self._began) / steps * (self.total - steps))
        return report


def transformer_flops(parameters: float, tokens: float) -> float:
    """Floating point operations of the model in a training step: 6 per parameter and token (Kaplan et al., 2020)."""
    return 6.0 * parameters * tokens


def _rank() -> int | None:
    for name in _RANKS:
        value = os.environ.get(name, "")
        if value.isdigit():
            return int(value)
    return None
