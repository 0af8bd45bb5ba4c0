"""The state as a small file: read once at the start, replaced in one move whenever it changes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from exporter.core.clock import EPOCH, NEVER, MonotonicTime, UnixTime
from exporter.faults.model import FaultState
from exporter.faults.state_text import DAMAGED, OTHER_VERSION, UNKNOWN, VERSION, Loaded, parse
from exporter.host.text import new_file

_MAX_BYTES = 4 << 20
_TOO_LARGE = "large"
UNREADABLE = "unreadable"
CAUSES = (DAMAGED, OTHER_VERSION, UNKNOWN, _TOO_LARGE, UNREADABLE)
"""Why a file was not understood in full."""


class StateError(Exception):
    """One line on why the file cannot be used."""


def read(path: Path) -> Loaded:
    """Return what is understood of the file; an empty state if there is none. Raises StateError."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return Loaded(FaultState(), _TOO_LARGE, f"larger than {_MAX_BYTES} bytes")
        return parse(path.read_bytes())
    except FileNotFoundError:
        return Loaded(FaultState())
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None


def set_aside(path: Path, cause: str) -> Path:
    """Keep the file under another name, too: one name for each cause. Raises StateError."""
    aside, new = _aside(path, cause), path.with_name(f".{path.name}.aside")
    try:
        new.unlink(missing_ok=True)
        new.hardlink_to(path)
        new.replace(aside)
        new.unlink(missing_ok=True)  # both names may be of one file, which replaces nothing
    except OSError as error:
        raise StateError(f"{aside}: {error.strerror or error}") from None
    return aside


def move_aside(path: Path) -> None:
    """Rename a file that cannot be read: it cannot be linked either, and the next save would replace it."""
    with contextlib.suppress(OSError):
        path.replace(_aside(path, UNREADABLE))


def causes_set_aside(path: Path, booted: UnixTime) -> tuple[str, ...]:
    """Return why files were set aside since this boot, and are still there. A restart ended what they may tell."""
    return tuple(cause for cause in CAUSES if _changed(_aside(path, cause)) > booted)


def _aside(path: Path, cause: str) -> Path:
    return path.with_name(f"{path.name}.{cause}")


def _changed(path: Path) -> UnixTime:
    try:
        return UnixTime(path.stat().st_ctime)
    except OSError:
        return EPOCH


def write(path: Path, state: FaultState) -> None:
    """Replace the file, whole or not at all. Raises StateError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(new_file(new, 0o640), "w") as file:
            json.dump(_content(state), file, separators=(",", ":"))
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise StateError(f"{path}: {error.strerror or error}") from None


def _content(state: FaultState) -> dict[str, Any]:
    return {
        "version": VERSION,
        "boot": state.boot,
        "acknowledged_until": state.acknowledged_until,
        "faults": [asdict(fault) for fault in state.faults],
        "switches": [asdict(fault) for fault in state.switches],
        "switches_cured": state.switches_cured,
        "accepted": sorted(state.accepted),
        "devices": {uuid: asdict(known) for uuid, known in state.devices.items()},
    }


log = logging.getLogger(__name__)

_SAVE_EVERY = 300.0
"""Seconds after which changed marks alone are saved; faults are saved at once."""
_TRY_EVERY = 30.0
"""Seconds after which a save that failed is tried again."""


class Saver:
    """Writes the last state it was offered."""

    def __init__(self, path: Path, write: Callable[[Path, FaultState], None] = write) -> None:
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
