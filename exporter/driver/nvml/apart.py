"""Questions about one GPU each on threads that can be abandoned: a call that never returns costs that GPU alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import NoReturn, TypeVar

from exporter.core.threads import outcome_of
from exporter.driver.interface import DriverError

T = TypeVar("T")

NEXT_AFTER_SECONDS = 1.0
"""Seconds after which the next GPU is asked beside one that has not answered yet."""
ANSWER_TIMEOUT_SECONDS = 10.0
"""Seconds without an answer of any GPU. One that nobody has used for a while needs some to wake up, one after the
other, and a node is drained for a GPU that hangs."""


class HungError(DriverError):
    """A call about this GPU has not returned in time, and may never."""

    code = "HUNG"


class Apart:
    """Belongs to the thread that enumerates. While a question about a GPU is out, no other is asked about it."""

    def __init__(self) -> None:
        self._out: dict[int, threading.Event] = {}
        """Events of GPUs whose call was abandoned, keyed by index: set once the call has returned."""

    @property
    def left(self) -> bool:
        """Return whether a call has not returned yet."""
        return not all(returned.is_set() for returned in self._out.values())

    def ask_all(self, questions: Mapping[int, Callable[[], T]]) -> Mapping[int, Callable[[], T]]:
        """Return a callable for each GPU's answer; HungError where it takes too long, or one before still does.

        The GPUs are asked one after the other. Those that hang are waited for together.
        """
        answers: SimpleQueue[tuple[int, Callable[[], T]]] = SimpleQueue()
        found: dict[int, Callable[[], T]] = {}
        asked: dict[int, threading.Event] = {}
        for index, question in questions.items():
            earlier = self._out.get(index)
            if earlier and not earlier.is_set():
                continue
            asked[index] = _start_question(index, question, answers)
            while index not in found and _take_answer(answers, found, NEXT_AFTER_SECONDS):
                pass
        while len(found) < len(asked) and _take_answer(answers, found, ANSWER_TIMEOUT_SECONDS):
            pass
        self._out.update((index, returned) for index, returned in asked.items() if index not in found)
        return {index: found.get(index) or _hung_failure(index) for index in questions}


def _start_question(
    index: int, question: Callable[[], T], answers: SimpleQueue[tuple[int, Callable[[], T]]]
) -> threading.Event:
    """Ask on a thread of its own; what is returned is set once the answer is there."""
    returned = threading.Event()

    def ask() -> None:
        answer = outcome_of(question)
        returned.set()
        answers.put((index, answer))

    try:
        threading.Thread(target=ask, name="apart", daemon=True).start()
    except (RuntimeError, OSError, MemoryError):
        ask()  # no thread is to be had
    return returned


def _take_answer(
    answers: SimpleQueue[tuple[int, Callable[[], T]]], found: dict[int, Callable[[], T]], seconds: float
) -> bool:
    """Wait for one more answer."""
    try:
        index, answer = answers.get(timeout=seconds)
    except Empty:
        return False
    found[index] = answer
    return True


def _hung_failure(index: int) -> Callable[[], NoReturn]:
    def fail() -> NoReturn:
        raise HungError(f"GPU {index}: no answer within {ANSWER_TIMEOUT_SECONDS:g} s")

    return fail
