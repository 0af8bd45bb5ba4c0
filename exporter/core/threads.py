"""Run a thread, or wait for one: errors are logged once and the thread is run again, and a wait has an end."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time

log = logging.getLogger(__name__)

PAUSES = (1.0, 2.0, 5.0, 10.0, 30.0)
"""Seconds before a thread that failed is run again; the last counts for all further failures."""
_STEADY_SECONDS = 60.0
"""A thread that ran so long has recovered: its next failure is a first one."""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """`down_since` is monotonic seconds; None while the thread runs. `failures` counts those of earlier runs too."""

    down_since: MonotonicTime | None = None
    failures: int = 0


@dataclass(slots=True)
class _Thread:
    run: Callable[[], None]
    longest_pause: float
    state: ThreadState = field(default_factory=ThreadState)
    started: bool = False
    streak: int = 0
    """Failures since it last ran for long."""


class Threads:
    """Starts daemon threads by name and runs their function until it returns.

    A thread that cannot even be started (the limit of the machine or of the cgroup) is started by a later `revive`.
    """

    def __init__(self, clock: MonotonicClock = monotonic_time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._threads: dict[str, _Thread] = {}
        self._stopped = threading.Event()

    def start(self, name: str, run: Callable[[], None], longest_pause: float = PAUSES[-1]) -> None:
        """Run `run` on a thread of its own. Never raises: a start that fails counts as a failure of the thread."""
        thread = _Thread(run, longest_pause)
        with self._lock:
            earlier = self._threads.get(name)
            thread.state = ThreadState(failures=earlier.state.failures if earlier else 0)
            self._threads[name] = thread
        self._start(name, thread)

    def revive(self) -> None:
        """Start what could not be started."""
        with self._lock:
            waiting = [(name, thread) for name, thread in self._threads.items() if not thread.started]
        for name, thread in waiting:
            self._start(name, thread)

    def states(self) -> Mapping[str, ThreadState]:
        """Return the states of the threads that have not ended, and of those that ever failed: counts never vanish."""
        with self._lock:
            return {name: thread.state for name, thread in self._threads.items()}

    def is_down(self, name: str) -> bool:
        """Return whether this thread could not be started, or waits to be run again."""
        with self._lock:
            thread = self._threads.get(name)
        return thread is not None and thread.state.down_since is not None

    def longest_down(self) -> tuple[str, float]:
        """The thread that has been down longest, and for how many seconds; empty and 0 where all run."""
        now = self._clock()
        down = {name: now - state.down_since for name, state in self.states().items() if state.down_since is not None}
        name = max(down, key=lambda each: down[each], default="")
        return name, down.get(name, 0.0)

    def stop(self) -> None:
        """Run nothing again that fails from now on; each thread is asked to end by whoever started it."""
        self._stopped.set()

    def _start(self, name: str, thread: _Thread) -> None:
        try:
            threading.Thread(target=self._run, args=(name, thread), name=name, daemon=True).start()
        except (RuntimeError, OSError, MemoryError) as error:
            self._note_failure(name, thread, error)
        else:
            thread.started = True

    def _run(self, name: str, thread: _Thread) -> None:
        while True:
            began = self._clock()
            thread.state = ThreadState(None, thread.state.failures)
            try:
                thread.run()
                break
            except Exception as error:  # noqa: BLE001 - whatever it is, this thread is tried again
                if self._clock() - began >= _STEADY_SECONDS:
                    thread.streak = 0
                self._note_failure(name, thread, error)
            if self._stopped.wait(min(PAUSES[min(thread.streak, len(PAUSES)) - 1], thread.longest_pause)):
                break
        with self._lock:
            thread.state = ThreadState(None, thread.state.failures)
            if self._threads.get(name) is thread and not thread.state.failures:
                del self._threads[name]

    def _note_failure(self, name: str, thread: _Thread, error: Exception) -> None:
        if not thread.streak:
            log.error("thread %s failed and is run again: %r", name, error, exc_info=error)
        since = self._clock() if thread.state.down_since is None else thread.state.down_since
        thread.state = ThreadState(since, thread.state.failures + 1)
        thread.streak += 1


T = TypeVar("T")


def run_with_timeout(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raise what it raises. TimeoutError after `seconds`; its daemon thread goes on."""
    answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(outcome_of(work)), name="within", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    return answer()


def outcome_of(work: Callable[[], T]) -> Callable[[], T]:
    """Return a callable that gives the result again, or raises the error again."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - it is the waiting thread's
        caught = error

        def fail() -> T:
            raise caught

        return fail
    return lambda: result
