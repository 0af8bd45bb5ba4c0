"""Saves the state of the faults in the background, since a disk may hang."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from exporter.core.clock import NEVER, MonotonicTime
from exporter.faults import state_file
from exporter.faults.model import FaultState
from exporter.faults.state_file import StateError

log = logging.getLogger(__name__)

_SAVE_EVERY = 300.0
"""Seconds after which changed marks alone are saved; faults are saved at once."""
_TRY_EVERY = 30.0
"""Seconds after which a save that failed is tried again."""


class Saver:
    """Writes the last state it was offered."""

    def __init__(self, path: Path, write: Callable[[Path, FaultState], None] = state_file.write) -> None:
        self._path = path
        self._write = write
        self._wake = threading.Condition()
        self._next: FaultState | None = None
        self._stopped = False
        self._saved = NEVER
        self.success: bool | None = None
        """Of the last write; None before the first has ended."""

    def offer(self, state: FaultState, monotonic: MonotonicTime, *, urgent: bool) -> None:
        """Save it soon where something `urgent` changed or long enough ago; else a later one."""
        if urgent or monotonic - self._saved >= (_TRY_EVERY if self.success is False else _SAVE_EVERY):
            self._saved = monotonic
            with self._wake:
                self._next = state
                self._wake.notify_all()

    def stop(self, state: FaultState) -> None:
        """Ask for a last save; it is not waited for."""
        with self._wake:
            self._next, self._stopped = state, True
            self._wake.notify_all()

    def save_once(self) -> None:
        """Save what was offered, in the caller's thread."""
        with self._wake:
            state, self._next = self._next, None
        if state is None:
            return
        try:
            self._write(self._path, state)
        except StateError as error:
            if self.success is not False:
                log.warning("faults do not survive a restart (--state.dir): %s", error)
            self.success = False
        else:
            self.success = True

    def run(self) -> None:
        """Save what is offered until stopped."""
        while True:
            with self._wake:
                while self._next is None and not self._stopped:
                    self._wake.wait()
                ending = self._stopped
            self.save_once()
            if ending:
                return
