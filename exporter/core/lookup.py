"""Answers by key from something that may take its time: asked in a thread of its own, waited for a moment at most."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Generic, TypeVar

from exporter.core.clock import MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

LOOKUP_WAIT_SECONDS = 0.05
"""Seconds that asking for a new key waits, where no question hangs."""
HANGS_SECONDS = 5.0
"""A question that takes longer is left to its thread, and another thread asks the next ones."""
_MAX_HANGING = 4


@dataclass(frozen=True, slots=True)
class _Answer(Generic[V]):
    """`value` is None where there was none."""

    value: V | None
    at: MonotonicTime


class Lookup(Generic[K, V]):
    """`get` never waits longer than LOOKUP_WAIT_SECONDS. Until it is started, it asks in the caller's thread.

    `ask` answers None where it knows nothing; it is asked again after `retry` seconds. Of more than `limit` answers
    those that nobody wanted for longest are forgotten.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[K], V | None],
        *,
        retry: float = 60.0,
        limit: int = 4096,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        self._name = name
        self._ask = ask
        self._retry = retry
        self._limit = limit
        self._clock = clock
        self._changed = threading.Condition()
        self._answers: dict[K, _Answer[V]] = {}
        self._wanted: dict[K, MonotonicTime] = {}
        """Open questions, and since when."""
        self._asking: tuple[K, MonotonicTime] | None = None
        self._turn = 0
        """Counts the threads; those of earlier turns hang in a question."""
        self._left: dict[K, MonotonicTime] = {}
        """Questions that hang in threads of earlier turns."""
        self._threads: Threads | None = None
        self._stopped = False

    def start(self, threads: Threads) -> None:
        self._threads = threads
        threads.start(self._name, lambda: self._serve(0))

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def get(self, key: K) -> V | None:
        """The answer, the last one while a new one is asked for, or None while there is none."""
        with self._changed:
            known, now = self._answers.get(key), self._clock()
            if known is None or (known.value is None and now - known.at >= self._retry):
                self._want_key(key, now)
                known = self._answers.get(key)
            elif len(self._answers) > 1:
                self._answers[key] = self._answers.pop(key)
        return known.value if known else None

    def waits(self, key: K) -> bool:
        """Return whether the first answer is still to come."""
        with self._changed:
            return key not in self._answers and (key in self._wanted or key in self._left)

    def keep(self, keys: Collection[K]) -> None:
        """Forget all others."""
        with self._changed:
            if self._answers.keys() - set(keys):
                self._answers = {key: answer for key, answer in self._answers.items() if key in keys}

    def health(self) -> tuple[bool, float] | None:
        """Return whether it answers in time, and the age of the oldest open question; None before the first."""
        with self._changed:
            if not (self._answers or self._wanted or self._left):
                return None
            now = self._clock()
            waiting = now - min((*self._wanted.values(), *self._left.values()), default=now)
        return waiting < HANGS_SECONDS, waiting

    def _want_key(self, key: K, now: MonotonicTime) -> None:
        if self._threads is None:
            self._keep_answer(key, self._value(key))
            return
        if key in self._left:
            return
        self._wanted.setdefault(key, now)
        self._changed.notify_all()
        since = self._asking[1] if self._asking else now
        if now - since >= HANGS_SECONDS and len(self._left) < _MAX_HANGING:
            self._replace(self._threads)
        if now - since < LOOKUP_WAIT_SECONDS:
            self._changed.wait_for(lambda: key not in self._wanted, LOOKUP_WAIT_SECONDS)

    def _replace(self, threads: Threads) -> None:
        """Leave the question that hangs to its thread; it stays open, and is not asked a second time."""
        if self._asking:
            key, since = self._asking
            self._wanted.pop(key, None)
            self._left[key] = since
        self._turn, self._asking = self._turn + 1, None
        turn = self._turn
        threads.start(f"{self._name}-{turn}", lambda: self._serve(turn))

    def _serve(self, turn: int) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or turn != self._turn or self._wanted)
                if self._stopped or turn != self._turn:
                    return
                key = next(iter(self._wanted))
                self._asking = (key, self._clock())
            value = self._value(key)
            with self._changed:
                self._keep_answer(key, value)
                if turn != self._turn:
                    return
                self._asking = None

    def _value(self, key: K) -> V | None:
        try:
            return self._ask(key)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other keys are asked for
            log.debug("%s: %s: %r", self._name, key, error)
            return None

    def _keep_answer(self, key: K, value: V | None) -> None:
        self._wanted.pop(key, None)
        self._left.pop(key, None)
        while len(self._answers) >= self._limit:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = _Answer(value, self._clock())
        self._changed.notify_all()
