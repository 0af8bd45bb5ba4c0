"""A thread for calls that may never return: the caller waits only until its own deadline."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from exporter.core.clock import NEVER, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

T = TypeVar("T")


class Worker(Generic[T]):
    """Runs one task at a time; the caller, which is one thread, waits for it only until its own deadline.

    The thread is a daemon: a hung ctypes call cannot be stopped and must not hold up the exit.
    """

    def __init__(self, name: str, threads: Threads | None = None) -> None:
        self.name = name
        self._tasks: SimpleQueue[tuple[int, Callable[[], T]] | None] = SimpleQueue()
        self._results: SimpleQueue[tuple[int, T | None]] = SimpleQueue()
        """Results with the number of the task. Only that of the last task is kept."""
        self._given = self._done = self._reported = 0
        """Numbers of the last task that was submitted, that has ended, and whose result was given out."""
        self._since = NEVER
        self._stopped = False
        self._threads = threads or Threads()
        self._threads.start(name, self._run, longest_pause=1.0)

    @property
    def busy_seconds(self) -> float:
        """Return how long the task at hand has been running; 0 when idle."""
        return 0.0 if self._done == self._given else monotonic_time() - self._since

    @property
    def down(self) -> bool:
        """Return whether its thread could not be started, or has failed and waits to be run again: it takes no task."""
        return self._threads.is_down(self.name)

    def submit(self, task: Callable[[], T]) -> bool:
        """Start `task` unless the one before still runs; whether it was started."""
        if self._done != self._given or self._stopped:
            return False
        self._since = monotonic_time()
        self._given += 1
        self._tasks.put((self._given, task))
        return True

    def wait(self, deadline: MonotonicTime) -> T | None:
        """The result of the task at hand, or None when it is not there by `deadline` (monotonic seconds).

        A result is given out once.
        """
        while self._reported != self._given:
            try:
                number, result = self._results.get(timeout=max(deadline - monotonic_time(), 0.0))
            except Empty:
                return None
            if number == self._given:
                self._reported = number
                return result
        return None

    def run(self, task: Callable[[], T], seconds: float) -> T | None:
        """The result of `task`; None where it is not there in time, or the task before still runs."""
        return self.wait(monotonic_time() + seconds) if self.submit(task) else None

    def overdue(self) -> T | None:
        """The result of a task that ended after everybody had stopped waiting; None where there is none, or no more."""
        return self.wait(NEVER) if self._done == self._given else None

    def stop(self) -> None:
        """Let the thread end once idle."""
        self._stopped = True
        self._tasks.put(None)

    def _run(self) -> None:
        while (given := self._tasks.get()) is not None:
            number, task = given
            result: T | None = None
            try:
                result = task()
            finally:
                self._done = number
                self._results.put((number, result))
