"""Report the progress of a training or serving program to gpu-exporter. One file, standard library only: copy it.

    from gpu_progress import Progress

    progress = Progress()
    for batch in progress.data(loader):          # time spent waiting for data
        with progress.phase("forward"):
            loss = model(batch)
        with progress.phase("backward"):
            loss.backward()
        progress.step(samples=len(batch))

A thread of its own sends the totals once a second to a unix datagram socket: where nobody listens, or the socket stays
full, the next report carries the same totals. Nothing here raises, and nothing is written to disk. Make the `Progress`
in the process that trains: what is forked off it reports nothing. From a shell, counters line by line, for as long as
the pipe is open:

    train.sh | awk '/^step/ {print "steps=" $2, "samples=" $2 * 64; fflush()}' | python3 gpu_progress.py
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import wraps
from typing import Any, Generic, TypeVar

__version__ = "0.1.0"

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

SOCKET = "/run/gpu-exporter/progress/progress.sock"
VERSION = 1
_FIRST, _LOCK_TIMEOUT_SECONDS = 0.1, 1.0
"""Seconds until the first report (what a program says last is only heard of one that was heard before), and that a
report waits for the one before it."""
_ROOM = struct.pack("ll", 0, 200_000)
"""Seconds and microseconds that the thread waits for room in a socket which somebody else floods."""
_NAMES, _NAME = 16, 40
"""Phases that one report has room for, and the characters of their names."""
_DIAGNOSED = ("data", "checkpoint", "evaluation", "communication")
"""Phases that explain a GPU that waits: they have their room first."""
_COUNTERS = ("samples", "images", "tokens", "requests", "steps", "epochs", "model_flops")
_REPORTED = frozenset({*_COUNTERS, "progress", "remaining_seconds", "time_to_target_seconds"})
"""Names of the protocol: other numbers would only fill the report, or take the place of its `version`."""
_MOST = 1 << 63
"""Whole numbers below it are added as they are; a float may not hold a greater one."""
_clock = time.perf_counter
_counting = threading.RLock()
"""Held for some instructions: threads may `add` at once, as those of a server do, and so may what a signal starts."""
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Phase:
    """Counts the seconds spent inside: a context manager, and a decorator. Entered twice, it ends at the first exit."""

    __slots__ = ("_began", "_seconds")

    def __init__(self) -> None:
        self._seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> Phase:  # noqa: PYI034 - typing.Self is younger than the Pythons this file runs on
        self._began = self._began or _clock()
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        began = self._began
        self._began = 0.0
        if began:
            self._seconds += _clock() - began

    def __call__(self, function: F) -> F:
        @wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]

    @property
    def seconds(self) -> float:
        """So far, what is spent in it right now included; any thread may ask."""
        while True:
            began, seconds = self._began, self._seconds
            if began == self._began:  # else it was entered or left in between
                return seconds + (_clock() - began if began else 0.0)

    def add(self, seconds: float) -> None:
        """Count what somebody else has measured."""
        self._seconds += _number(seconds)


class Loader(Generic[T]):
    """A loader or iterator as it is, the time it takes to get each item counted as a phase."""

    def __init__(self, loader: Iterable[T], phase: Phase) -> None:
        self._loader = loader
        self._phase = phase

    def __iter__(self) -> Iterator[T]:
        with self._phase:
            iterator = iter(self._loader)
        while True:
            with self._phase:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def __next__(self) -> T:
        with self._phase:
            return next(self._loader)  # type: ignore[call-overload,no-any-return]

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name == "_loader":  # of a copy that is being made
            raise AttributeError(name)
        return getattr(self._loader, name)


class _Part:
    """Counts of one `Progress` of a process.

    `stepped` are its steps, and the seconds from the first to the last of them without waits for ranks: two numbers
    that belong together.
    """

    __slots__ = ("counters", "path", "phases", "pid", "resume", "stepped", "stopped")

    def __init__(self, path: str, resume: Callable[[], None]) -> None:
        self.resume = resume
        self.path = path
        self.pid = os.getpid()
        self.counters: dict[str, float] = {}
        self.phases: dict[str, Phase] = {}
        self.stepped = (0.0, 0.0)
        self.stopped = False


class Progress:
    """Totals of this process since it started, reported every `interval` seconds; 0 only where `send` is called.

    `total` is the number of steps to the end; with it the part done and the seconds left are sent too, and `done` the
    steps that were done before (a program that goes on from a checkpoint). A second one in the same process (the cell
    of a notebook run again, the next trial of a sweep) counts on: the newest reports for all. Ranks that work on the
    same data (tensor or pipeline parallel) give the `group_size`, how many they are: each counts for its part, so that
    their samples count once wherever they run.
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        rank: int | None = None,
        total: float | None = None,
        done: float = 0.0,
        group_size: int = 1,
        interval: float = 1.0,
    ) -> None:
        self._path = path or os.environ.get("GPU_PROGRESS_SOCKET", SOCKET)
        self._group_size = group_size
        self._interval = interval
        self._part = _Part(self._path, self._start)
        self._counters = self._part.counters
        self._phases = self._part.phases
        self._waits: Phase | None = None  # what `phase("communication")` gives
        self._began = _clock()
        self._reached: float | None = None
        self._first: float | None = None
        self._pid = os.getpid()
        self._socket: socket.socket | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._sending = threading.Lock()
        self.rank = _rank() if rank is None else rank
        self.total = total
        self.done = done
        _made.append(self._part)
        self._start()
        if interval > 0:
            _at_exit(self.close)

    def phase(self, name: str) -> Phase:
        """Give the phase of this name: `data`, `forward`, `backward`, `optimizer`, `communication`, `checkpoint`, ...

        Also `evaluation`, `compile`, and names of your own. Keep what it gives where you need it in each step.
        """
        found = self._phases.get(name)
        if found is None:
            found = self._phases.setdefault(name, Phase())
            if name == "communication":
                self._waits = found
        return found

    def data(self, loader: Iterable[T]) -> Loader[T]:
        """The loader (a DataLoader, any iterator) as it is; the time it takes to get each item is the phase `data`."""
        return Loader(loader, self.phase("data"))

    def step(self, count: float = 1, **counters: float) -> None:
        """Count steps and what was worked off in them: `samples`, `images`, `tokens`, `requests`, `model_flops`.

        In one thread; several at once may `add`.
        """
        totals = self._counters
        for name, value in counters.items():
            # In place, for each step pays it: what is no plain number, or not finite, goes through `_number`.
            plain = -_MOST < value < _MOST if type(value) is int else type(value) is float and value - value == 0.0
            totals[name] = totals.get(name, 0.0) + (value if plain else _number(value))
        plain = type(count) is int and -_MOST < count < _MOST
        self._step(totals.get("steps", 0.0) + (count if plain else _number(count)))

    def add(self, **counters: float) -> None:
        """Count what is no step: `epochs`, `requests`, ..."""
        totals = self._counters
        for name, value in counters.items():
            number = _number(value)
            with _counting:
                totals[name] = totals.get(name, 0.0) + number

    def set(self, **totals: float) -> None:
        """Say totals since the program started that it counts itself."""
        self._counters.update({name: _number(value) for name, value in totals.items()})
        if "steps" in totals:
            self._step(self._counters["steps"])

    @property
    def steps(self) -> float:
        """Steps that this one has counted."""
        return self._part.stepped[0]

    def _step(self, steps: float) -> None:
        self._counters["steps"] = steps
        own = _clock() - (self._waits.seconds if self._waits else 0.0)
        if self._first is None:
            self._first = own
        self._part.stepped = (steps, own - self._first)

    def reached_target(self) -> None:
        """Say that the target quality is reached: the time until now is the time to train, as MLPerf has it."""
        if self._reached is None:
            self._reached = _clock() - self._began

    def close(self) -> None:
        """Send the last totals, and no more after."""
        if not self._stop.is_set() and os.getpid() == self._pid:
            newest = self._newest()
            self._stop.set()
            self._part.stopped = True
            if newest:
                self._send()
                for part in [each for each in self._all() if not each.stopped][-1:]:
                    part.resume()
            kept, self._socket = self._socket, None
            if kept:
                kept.close()

    def send(self) -> bool:
        """Report now; whether somebody took it. Nothing is sent before something was counted."""
        return not self._stop.is_set() and self._send(socket.MSG_DONTWAIT)

    def _send(self, flags: int = 0) -> bool:
        if os.getpid() != self._pid or not any(each.counters or each.phases for each in self._all()):
            return False
        # One after the other, or older totals could come after the last. A fork may have left it locked for ever.
        if not self._sending.acquire(timeout=_LOCK_TIMEOUT_SECONDS):
            return False
        try:
            if self._socket is None:
                made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _ROOM)
                self._socket = made
            text = json.dumps(self.report(), ensure_ascii=False).encode("utf-8", "replace")
            self._socket.sendto(text, flags, self._path)
        except Exception:  # noqa: BLE001 - whatever it is, it is not the program's business
            return False
        finally:
            self._sending.release()
        return True

    def report(self) -> dict[str, Any]:
        """Return the report to send."""
        counted = self._all()
        report: dict[str, Any] = {"version": VERSION, "pid": self._pid}
        for name, value in (item for each in counted for item in list(each.counters.items()) if item[0] in _REPORTED):
            report[name] = report.get(name, 0.0) + value
        rank, size = (_whole(each) for each in (self.rank, self._group_size))
        if rank is not None:
            report["rank"] = rank
        if size is not None and size > 1:
            report["group_size"] = size
        phases = _seconds(counted)
        if phases:
            report["phases"] = phases
        stepped = [each.stepped for each in counted]
        steps = sum(number for number, _ in stepped)
        if steps:
            report["steps"], report["step_seconds"] = steps, round(sum(seconds for _, seconds in stepped), 6)
        if self._reached is not None:
            report["time_to_target_seconds"] = round(self._reached, 3)
        return {**report, **self._outlook()}

    def _outlook(self) -> dict[str, float]:
        """Return how far it is, and how far it has to go."""
        total, done, steps = _number(self.total or 0.0), _number(self.done), self.steps
        if not total:
            return {}
        outlook = {"total": total, "progress": max(0.0, min(1.0, (done + steps) / total))}
        if steps:
            left = (_clock() - self._began) / steps * (total - done - steps)
            outlook["remaining_seconds"] = round(max(0.0, left), 3)
        return outlook

    def _all(self) -> list[_Part]:
        """Those of this process that report to the same place: what it has got done is the sum over them."""
        return [each for each in _made if each.path == self._path and each.pid == self._pid]

    def _newest(self) -> bool:
        return [each for each in self._all() if not each.stopped][-1:] == [self._part]

    def _start(self) -> None:
        """Again, once a newer one has ended: while there is one, that reports for all, and this one needs no thread."""
        if self._interval > 0:
            self._thread = threading.Thread(target=self._run, name="gpu-progress", daemon=True)
            with suppress(RuntimeError):  # no thread is to be had, or the program is ending
                self._thread.start()

    def _run(self) -> None:
        wait = min(self._interval, _FIRST)
        while not self._stop.wait(wait) and self._newest() and self._thread is threading.current_thread():
            self._send()
            wait = self._interval


_made: list[_Part] = []


def _forked() -> None:
    """Make a new lock in the child: a thread of the parent, which the child does not have, may own the old one."""
    global _counting  # noqa: PLW0603 - as `os.register_at_fork` has it
    _counting = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _at_exit(close: Callable[[], None]) -> None:
    """Also where `multiprocessing` ends a process of its own, without Python's handlers."""
    atexit.register(close)
    util: Any = sys.modules.get("multiprocessing.util")
    if util and sys.modules["multiprocessing"].parent_process():
        util.Finalize(None, close, exitpriority=0)


def _seconds(counted: Iterable[_Part]) -> dict[str, float]:
    """Return the seconds by phase, of as many as a report has room for."""
    phases: dict[str, float] = {}
    found = [(str(name)[:_NAME], phase) for each in counted for name, phase in list(each.phases.items())]
    for name, phase in sorted(found, key=lambda item: item[0] not in _DIAGNOSED):
        if name in phases or len(phases) < _NAMES:
            phases[name] = round(phases.get(name, 0.0) + phase.seconds, 6)
    return phases


def _number(value: Any) -> float:
    """Return the value of a number or tensor in double precision; 0 for anything else, and for no number."""
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 - whatever it is, it is not the program's business
        return 0.0
    return number if number - number == 0.0 else 0.0


def _whole(value: Any) -> int | None:
    """Also of a tensor or a number of NumPy, which JSON has no word for; None for what is none."""
    try:
        return int(value)
    except Exception:  # noqa: BLE001 - as above
        return None


def transformer_flops(
    parameters: float, tokens: float, *, layers: int = 0, width: int = 0, sequence: int = 0, forward_only: bool = False
) -> float:
    """Floating point operations of a transformer for so many tokens, forward and backward.

    6 per parameter and token (Kaplan et al., 2020), and with `layers`, `width` (of the model) and `sequence` those of
    attention too: 12 per layer, width, sequence and token (Chowdhery et al., 2022). Parameters of a mixture of experts
    are those that one token uses. Serving has the forward pass only: a third.
    """
    whole = (6.0 * parameters + 12.0 * layers * width * sequence) * tokens
    return whole / 3.0 if forward_only else whole


def _rank() -> int | None:
    found = (_whole(os.environ.get(name)) for name in _RANKS)
    return next((rank for rank in found if rank is not None), None)


def main(lines: Iterable[str]) -> int:
    """Report totals from lines such as `steps=400 samples=25600`; what is no number is passed over."""
    progress = Progress()
    for line in lines:
        for word in line.split():
            name, _, number = word.partition("=")
            try:
                value = float(number)
            except ValueError:
                continue
            if name == "total":
                progress.total = value
            else:
                progress.set(**{name: value})
    progress.close()
    return 0


def console() -> int:
    # Not the strict sys.stdin: a byte that is no text would end the pipe, and with it who writes to it.
    with os.fdopen(0, encoding="utf-8", errors="replace", closefd=False) as lines:
        return main(lines)


if __name__ == "__main__":
    sys.exit(console())
