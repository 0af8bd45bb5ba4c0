"""One thread for each GPU: a driver call that never returns costs that GPU alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from exporter.core.clock import MonotonicTime, monotonic_time
from exporter.core.threads import Threads
from exporter.sampling.worker import Worker

T = TypeVar("T")


def _none(_: object) -> bool:
    return False


class GpuThreads(Generic[T]):
    """Reads GPUs by uuid. Belongs to the thread that runs the passes.

    GPUs are read one after the other, for threads that call the driver side by side spend as much again on the
    interpreter's lock. A GPU that does not answer within its turn is read beside the next ones. The turns of all GPUs
    take half of the time until the deadline.
    """

    def __init__(self, thread_name: Callable[[str], str]) -> None:
        """`thread_name` returns the name of a GPU's thread."""
        self._thread_name = thread_name
        self.threads = Threads()
        """Where threads from now on are started."""
        self._workers: dict[str, Worker[T]] = {}
        self.unasked: frozenset[str] = frozenset()
        """GPUs that the last read did not ask, as their thread does not run: nothing is known of them."""

    def read(
        self, tasks: Mapping[str, Callable[[], T]], deadline: MonotonicTime, takes: Callable[[T], bool] = _none
    ) -> Mapping[str, T | None]:
        """Return the results by uuid; None for one that is not there by `deadline` (monotonic seconds).

        A GPU whose read of an earlier pass still runs is left out. If that read has ended since then, and `takes`
        accepts its result, it is the result: a GPU that always takes longer than a pass would never have one.
        """
        self._end_threads_of_gone(tasks)
        found: dict[str, T | None] = {}
        unasked: set[str] = set()
        turn = (deadline - monotonic_time()) / 2 / max(len(tasks), 1)
        for uuid, task in tasks.items():
            worker = self._workers.get(uuid) or self._start(uuid)
            if worker.down:
                unasked.add(uuid)
                continue
            late = worker.overdue()
            if late is not None and takes(late):
                found[uuid] = late
            elif worker.submit(task):
                found[uuid] = worker.wait(min(monotonic_time() + turn, deadline))
        self.unasked = frozenset(unasked)
        return {
            uuid: self._workers[uuid].wait(deadline) if result is None else result for uuid, result in found.items()
        }

    def busy_seconds(self, uuid: str) -> float:
        """Return how long the GPU's read has been running; 0 if none is."""
        worker = self._workers.get(uuid)
        return worker.busy_seconds if worker else 0.0

    def stop(self) -> None:
        for worker in self._workers.values():
            worker.stop()

    def _start(self, uuid: str) -> Worker[T]:
        worker: Worker[T] = Worker(self._thread_name(uuid), self.threads)
        self._workers[uuid] = worker
        return worker

    def _end_threads_of_gone(self, present: Mapping[str, object]) -> None:
        """End the threads of GPUs that have gone, but for those in a call: the GPU may come back before its call."""
        for uuid in self._workers.keys() - present.keys():
            if not self._workers[uuid].busy_seconds:
                self._workers.pop(uuid).stop()
