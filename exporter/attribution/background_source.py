"""Reading of a source in a thread of its own, so that no sampling cycle waits for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from exporter.attribution.owner import SourceHealth
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, monotonic_time
from exporter.core.threads import Threads

log = logging.getLogger(__name__)

T = TypeVar("T")

HANGS_SECONDS = 15.0
"""Time after which an open question counts as hung: the timeouts of the sources are shorter."""
LAST_KNOWN_SECONDS = 300.0
"""Time that allocations outlive the source that reported them: a kubelet restarts, a file system is remounted."""


MISSING, REFUSED, TIMEOUT, UNREACHABLE, BAD_ANSWER = "missing", "refused", "timeout", "unreachable", "bad_answer"
"""Reasons of failures: no such file or socket, no permission, no answer in time, no connection or a broken one, others.
"""


class SourceError(Exception):
    """Failure of a source to answer, or to answer in a known format. Its last report stays valid for a while."""

    def __init__(self, message: str, reason: str = BAD_ANSWER) -> None:
        super().__init__(message)
        self.reason = reason


def reason_of(error: Exception) -> str:
    """Return the reason of a failure."""
    if isinstance(error, SourceError):
        return error.reason
    reasons = {FileNotFoundError: MISSING, PermissionError: REFUSED, TimeoutError: TIMEOUT, OSError: UNREACHABLE}
    return next((reason for kind, reason in reasons.items() if isinstance(error, kind)), BAD_ANSWER)


class FailureLog:
    """Logs the first failure of a source, each failure with another reason, and the first answer after them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._reason = ""

    def failed(self, error: Exception) -> str:
        """Return the reason of the failure."""
        reason = reason_of(error)
        if reason != self._reason:
            unforeseen = None if isinstance(error, SourceError | OSError) else error
            message = str(error) or type(error).__name__
            log.warning("source %s does not answer (%s): %s", self._source, reason, message, exc_info=unforeseen)
        self._reason = reason
        return reason

    def answered(self) -> None:
        if self._reason:
            log.info("source %s answers again", self._source)
        self._reason = ""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """Last good answer, and the result of the last question. `at` is the start of asking before any answer."""

    value: T
    at: MonotonicTime
    success: bool = True
    error: str = ""
    reason: str = ""
    """Reason of the error; empty before the first answer."""
    asked_at: MonotonicTime = NEVER
    """Time at which the question was put: the answer may not have what came after it."""


class BackgroundSource(Generic[T]):
    """Asks `ask` again after `interval` seconds, which may depend on the last answer, or when woken.

    Failures stretch the interval, up to `longest`. `changed` is called whenever an answer differs from the last.

    `ask` raises SourceError or OSError and must end by its own time-out. `answer` never waits.
    """

    def __init__(  # noqa: PLR0913 - what may differ from source to source
        self,
        ask: Callable[[], T],
        nothing: T,
        *,
        name: str,
        interval: Callable[[T], float],
        longest: float = 60.0,
        clock: MonotonicClock = monotonic_time,
        changed: Callable[[], None] | None = None,
        failures: FailureLog | None = None,
    ) -> None:
        """`failures` logs them; without it whoever owns the source does."""
        self._ask = ask
        self._failure_log = failures
        self._changed = changed
        self._interval = interval
        self._longest = longest
        self._clock = clock
        self._woken = threading.Event()
        self._stopped = False
        self._failures = 0
        self.answer: Answer[T] = Answer(nothing, clock(), success=False)
        self._name = name
        self._asking_since: MonotonicTime | None = None
        self._ended = threading.Event()
        self._ended.set()

    def start(self, threads: Threads | None = None) -> None:
        self._ended.clear()
        (threads or Threads()).start(self._name, self._run)

    def health(self, source: str, now: MonotonicTime, conflicts: int = 0) -> SourceHealth:
        """Return the health; a question that is open for too long is a failure, whatever was answered before."""
        answer, since = self.answer, self._asking_since
        hangs = since is not None and now - since > HANGS_SECONDS
        reason = TIMEOUT if hangs else answer.reason
        return SourceHealth(source, answer.success and not hangs, max(0.0, now - answer.at), conflicts, reason=reason)

    def wake(self) -> None:
        """Ask again soon: something new has appeared. Does not hurry a source that is failing."""
        if not self._failures:
            self._woken.set()

    def stop(self, timeout: float = 1.0) -> None:
        """End the thread; one that hangs in its source is abandoned, it cannot keep the program alive."""
        self._stopped = True
        self._woken.set()
        self._ended.wait(timeout)

    def ask_once(self) -> None:
        """Ask now, in the caller's thread."""
        last, began = self.answer, self._clock()
        self._asking_since = began
        try:
            self.answer = Answer(self._ask(), self._clock(), asked_at=began)
            self._failures = 0
            if self._failure_log:
                self._failure_log.answered()
            if self._changed and self.answer.value != last.value:
                self._changed()
        except Exception as error:  # a source's bytes are other people's: nothing in them may end the thread
            if not (self._failure_log or isinstance(error, SourceError | OSError)) and self.answer.success:
                log.exception("%s failed", self._name)
            reason = self._failure_log.failed(error) if self._failure_log else reason_of(error)
            text = str(error) or type(error).__name__
            self.answer = replace(last, success=False, error=text, reason=reason)
            self._failures += 1
        finally:
            self._asking_since = None

    def _run(self) -> None:
        while not self._stopped:
            self._woken.clear()
            self.ask_once()
            if not self._stopped:
                self._woken.wait(min(self._longest, self._interval(self.answer.value) * 2.0 ** min(self._failures, 16)))
        self._ended.set()
