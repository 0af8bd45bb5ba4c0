"""A thread for calls that may never return: whoever wants them waits only as long as it likes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from exporter.clock import MonotonicTime, monotonic_time
from exporter.threads.runner import Threads

T = TypeVar("T")


class Worker(Generic[T]):
    """Runs one task at a time; the caller waits for it only as long as it likes.

    The thread is a daemon: a hung ctypes call cannot be stopped and must not hold up the exit.
    """

    def __init__(self, name: str, threads: Threads | None = None) -> None:
        self.name = name
        self._changed = threading.Condition()
        self._task: Callable[[], T] | None = None
        self._result: T | None = None
        self._busy_since: MonotonicTime | None = None
        self._stopped = False
        (threads or Threads()).start(name, self._run, longest_pause=1.0)

    @property
    def busy_seconds(self) -> float:
        """How long the task at hand has been running; 0 when idle."""
        since = self._busy_since
        return 0.0 if since is None else monotonic_time() - since

    def submit(self, task: Callable[[], T]) -> bool:
        """Start `task` unless the one before still runs; whether it was started."""
        with self._changed:
            if self._busy_since is not None or self._stopped:
                return False
            self._task, self._result, self._busy_since = task, None, monotonic_time()
            self._changed.notify_all()
            return True

    def wait(self, deadline: MonotonicTime) -> T | None:
        """The result of the task at hand, or None when it is not there by `deadline` (monotonic seconds).

        A result is given out once.
        """
        with self._changed:
            while self._busy_since is not None:
                left = deadline - monotonic_time()
                if left <= 0:
                    return None
                self._changed.wait(left)
            result, self._result = self._result, None
            return result

    def stop(self) -> None:
        """Let the thread end once idle."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._task is None:
                    if self._stopped:
                        return
                    self._changed.wait()
                task, self._task = self._task, None
            result: T | None = None
            try:
                result = task()
            finally:
                with self._changed:
                    self._result, self._busy_since = result, None
                    self._changed.notify_all()
