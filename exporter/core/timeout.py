"""Something that may never end, waited for no longer than it is worth."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(seconds: float, work: Callable[[], T]) -> T:
    """What `work` returns or raises. TimeoutError where it takes longer; then it is left to its thread, a daemon."""
    answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(outcome_of(work)), name="within", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    return answer()


def outcome_of(work: Callable[[], T]) -> Callable[[], T]:
    """What gives the result again, or raises the error again."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - it is the waiting thread's
        caught = error

        def fail() -> T:
            raise caught

        return fail
    return lambda: result
