"""Questions about one GPU each on a thread that can be left behind: a call that never returns costs that GPU alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from exporter.driver.interface import DriverError
from exporter.threads.within import within

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds. One that nobody has used for a while needs some to wake up, and a node is drained for a GPU that hangs."""


class HungError(DriverError):
    """A call about this GPU has not returned in time, and may never."""

    code = "HUNG"


class Apart:
    """Belongs to the thread that enumerates. While a question about a GPU is out, no other is asked about it."""

    def __init__(self) -> None:
        self._out: dict[int, threading.Event] = {}
        """By index, of the GPUs that were left behind: set once the call has returned."""

    def ask(self, index: int, question: Callable[[], T]) -> T:
        """What `question` returns or raises. Raises HungError where it takes too long, or one before still does."""
        returned = self._out.get(index)
        if returned and not returned.is_set():
            raise HungError(f"GPU {index}: an earlier call has not returned")
        ended = threading.Event()

        def asked() -> T:
            try:
                return question()
            finally:
                ended.set()

        try:
            return within(PATIENCE, asked)
        except TimeoutError:
            self._out[index] = ended
            raise HungError(f"GPU {index}: no answer within {PATIENCE:g} s") from None
        except (RuntimeError, OSError, MemoryError):
            if ended.is_set():
                raise
            return question()  # no thread is to be had
