"""Requests, answers, and where answers are made: a few threads for pages, one for what is slow on purpose."""

from __future__ import annotations

import contextlib
import enum
import functools
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from exporter.core.threads import Threads

Environ = Mapping[str, Any]
"""REQUEST_METHOD, PATH_INFO, QUERY_STRING, REMOTE_ADDR and HTTP_… headers, as PEP 3333 names them."""


@dataclass(frozen=True, slots=True)
class Response:
    status: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    after: float = 0.0
    """Seconds that the client is made to wait for it."""


_WAITING = 64
"""Requests that wait in one lane; the next one is turned away."""

Task = Callable[[], None]


class Lane(enum.Enum):
    PAGE = "page"
    SLOW = "slow"
    """Passwords not seen before, the status page: one at a time, so that scrapes go on beside them."""


class Lanes:
    """Bounded queues with their threads."""

    def __init__(self, threads: Threads, pages: int) -> None:
        self._threads = threads
        self._queues: Mapping[Lane, queue.Queue[Task | None]] = {
            lane: queue.Queue(_WAITING) for lane in (Lane.PAGE, Lane.SLOW)
        }
        self._workers = [(Lane.PAGE, number) for number in range(max(pages, 1))] + [(Lane.SLOW, 0)]

    def start(self) -> None:
        for lane, number in self._workers:
            self._threads.start(f"web-{lane.value}-{number}", functools.partial(_work, self._queues[lane]))

    def submit(self, lane: Lane, task: Task) -> bool:
        """Whether there was room for the task."""
        try:
            self._queues[lane].put_nowait(task)
        except queue.Full:
            return False
        return True

    def stop(self) -> None:
        """Let the threads end once they are idle; a lane that is full is left behind, its threads are daemons."""
        for lane, _ in self._workers:
            with contextlib.suppress(queue.Full):
                self._queues[lane].put_nowait(None)


def _work(waiting: queue.Queue[Task | None]) -> None:
    while True:
        task = waiting.get()
        if task is None:
            return
        task()
        del task  # it knows its connection
