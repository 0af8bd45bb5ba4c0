"""On which thread each GPU is read: one for all that answer in time, and one of its own for each that does not.

Threads that call the driver side by side spend as much again on the interpreter's lock, so GPUs are read one after the
other. A read that overstays its turn keeps the thread it is on, and the others go on on another one: a call that never
returns costs one GPU alone. A thread that only waits for a CPU, on a node whose jobs use them all, has another turn
for half of the time there is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import chain, count
from typing import Generic, TypeVar

from exporter.core.clock import NEVER, MonotonicTime, monotonic_time
from exporter.core.threads import Threads
from exporter.host.process import parse_stat
from exporter.host.text import read_text
from exporter.sampling.worker import Worker

T = TypeVar("T")

_TURN = 0.05
"""Seconds: of eight GPUs half a pass."""
_STEADY = 20
"""Reads in a row within a turn after which a GPU goes back to the thread of all."""


def _none(_: object) -> bool:
    return False


class GpuThreads(Generic[T]):
    """Reads GPUs by name, each for `turn` seconds alone. Belongs to the thread that runs the passes."""

    def __init__(self, turn: float = _TURN) -> None:
        self._turn = turn
        self.threads = Threads()
        """Where threads from now on are started."""
        self._shared: Worker[_Results[T]] | None = None
        self._own: dict[str, Worker[_Results[T]]] = {}
        self._prompt: dict[str, int] = {}
        """Of the GPUs with a thread of their own: reads in a row that kept to a turn."""
        self.unasked: frozenset[str] = frozenset()
        """Of the last read those that nobody asked, as their thread does not run: it tells nothing of these GPUs."""

    def read(
        self, tasks: Mapping[str, Callable[[], T]], deadline: MonotonicTime, takes: Callable[[T], bool] = _none
    ) -> Mapping[str, T | None]:
        """Results by name; None for one that is not there by `deadline` (monotonic seconds).

        A GPU whose read of an earlier pass still runs is left out, and so is one that is not asked. Where that read
        has ended since then, and `takes` finds its result of use, it is the result: a GPU that always takes longer
        than a pass would never have one.
        """
        unasked = {name for name in tasks if name in self._own and self._own[name].down}
        found: _Results[T] = {}
        for name in tasks.keys() & self._own.keys():
            found |= self._overdue(name, takes)
        waiting = [
            name for name in tasks if name in self._own and name not in found and self._submit(name, tasks[name])
        ]
        left = {name: task for name, task in tasks.items() if name not in self._own} if self._own else tasks
        while left:
            turns = _Turns(left, self._turn)
            worker = self._shared = self._shared or self._new()
            if worker.down:
                unasked.update(left)
                break
            worker.submit(turns.run)
            worker.wait(min(monotonic_time() + self._turn, deadline))  # mostly all have been read then
            late = turns.overstayed(deadline)
            found |= turns.results
            left = turns.left
            if late is None:
                worker.wait(deadline)
            else:
                self._own[late], self._shared, self._prompt[late] = worker, None, 0
                waiting.append(late)
        for name in waiting:
            found |= self._own[name].wait(deadline) or {}
        self._release(found)
        self.unasked = frozenset(unasked)
        return {name: found[name][0] if name in found else None for name in tasks if name in found or name in waiting}

    def busy_seconds(self, name: str) -> float:
        """How long a read that overstayed its turn has been running."""
        worker = self._own.get(name)
        return worker.busy_seconds if worker else 0.0

    def stop(self) -> None:
        for worker in (*self._own.values(), *([self._shared] if self._shared else [])):
            worker.stop()

    def _overdue(self, name: str, takes: Callable[[T], bool]) -> _Results[T]:
        results = self._own[name].overdue() or {}
        return {name: results[name]} if name in results and takes(results[name][0]) else {}

    def _submit(self, name: str, task: Callable[[], T]) -> bool:
        worker = self._own[name]
        return not worker.down and worker.submit(_Turns({name: task}, self._turn).run)

    def _new(self) -> Worker[_Results[T]]:
        running = self.threads.states()
        names = chain(("gpus",), (f"gpus-{number}" for number in count(2)))
        return Worker(next(name for name in names if name not in running), self.threads)  # few names: few series

    def _release(self, found: _Results[T]) -> None:
        """Count the reads that kept to their turn, and end the threads that are needed no more."""
        for name in self._own.keys() & found.keys():
            self._prompt[name] = self._prompt[name] + 1 if found[name][1] <= self._turn else 0
            if self._prompt[name] >= _STEADY:
                self._own.pop(name).stop()


_Results = dict[str, tuple[T, float]]
"""By GPU: what its read gave, and the seconds it took."""


class _Turns(Generic[T]):
    """Reads that follow one another on a worker, watched by the thread that wants them."""

    def __init__(self, tasks: Mapping[str, Callable[[], T]], turn: float) -> None:
        self._turn = turn
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.left = dict(tasks)
        """Those that have not begun."""
        self.results: _Results[T] = {}
        self._current = ""
        self._began = NEVER
        self._thread = 0
        """Of the kernel: the one that reads."""
        self._ended = False
        self._closed = False

    def run(self) -> _Results[T]:
        self._thread = threading.get_native_id()
        try:
            task = self._next()
            while task:
                task = self._next(task())
        finally:
            with self._lock:
                self._ended = True
                self._changed.notify_all()
        return self.results

    def overstayed(self, deadline: MonotonicTime) -> str | None:
        """Wait until all have been read, or a turn or the deadline has passed: then the one whose turn it was.

        Once it has returned, no further read begins.
        """
        with self._lock:
            turn_ends = NEVER
            patient = monotonic_time()
            patient += (
                deadline - patient
            ) / 2  # then the others go on on threads of their own, each with a CPU's turns
            while not self._ended:
                now = monotonic_time()
                turn_ends = max(turn_ends, self._began + self._turn if self._current else now + _TURN)
                if turn_ends <= now < patient and runs(self._thread):
                    turn_ends = now + self._turn
                if now >= min(turn_ends, deadline):
                    self._closed = True
                    return self._current or self._dropped()
                self._changed.wait(min(turn_ends, deadline) - now)
            self._closed = True
            return None

    def _next(self, result: T | None = None) -> Callable[[], T] | None:
        """Files the result of the turn that has ended, if one has, and begins the next."""
        with self._lock:
            now = monotonic_time()
            if result is not None:
                found = (result, now - self._began)
                if self._closed:  # somebody reads those in time without the lock
                    self.results = {**self.results, self._current: found}
                else:
                    self.results[self._current] = found
            if self._closed or not self.left:
                return None
            self._current, self._began = next(iter(self.left)), now
            return self.left.pop(self._current)

    def _dropped(self) -> str:
        """The first of them, where the worker has not even begun by the deadline."""
        name = next(iter(self.left))
        del self.left[name]
        return name


def runs(thread: int) -> bool:
    """Whether a thread of this process has a CPU or waits for one, and for nothing else; no where /proc is hidden."""
    stat = parse_stat(read_text(f"/proc/self/task/{thread}/stat"))
    return stat is not None and stat.state == "R"
