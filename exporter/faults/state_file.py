"""The fault state as a small file: read once at the start, replaced in one move whenever it changes.

A damaged file is read record by record, as far as it can be understood.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from exporter.collectors.xid_catalogue import FALLEN_OFF
from exporter.core.clock import EPOCH, NEVER, MonotonicTime, UnixTime
from exporter.core.site_file import read_bytes
from exporter.faults.model import (
    XID_EVIDENCE,
    Fault,
    FaultKind,
    FaultState,
    GpuRecord,
    RepairAction,
    SwitchFault,
    parse_date,
)
from exporter.host.text import new_file

VERSION = 1
DAMAGED, OTHER_VERSION, UNKNOWN = "damaged", "version", "unknown"
_WORST_FIRST = (OTHER_VERSION, DAMAGED, UNKNOWN)
_KEYS = frozenset(
    {"version", "boot", "booted", "acknowledged_until", "accepted", "devices", "faults", "switches", "checksum"}
) | {"switches_last_reset", "unnamed_last_reset"}
_MAX_ENTRIES = 1024
"""GPUs and faults that are believed of one node."""
_MAX_DEPTH = 8
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""A string, which may be cut off, or a token of JSON's structure."""
_CLOSING = {"{": "}", "[": "]"}
_MAX_ID_CHARACTERS = 16
_MAX_EVIDENCE_CHARACTERS = 200
_NEW = GpuRecord(0)
_EARLIER_NAMES = {
    "marked": "baseline_time",
    "low": "reset_observations",
    "cured": "last_reset",
    "away": "missing_since",
    "back": "returned_at",
    "switches_cured": "switches_last_reset",
}
"""Names in earlier versions."""
RECORD_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""Errors that parsing raises if it is no record."""
_CHECKSUM = re.compile(rb',"checksum":"([^"]*)"}\s*\Z')
"""CRC-32 of all before it: a changed digit is valid JSON, too. Earlier versions wrote none."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Contents that were understood. `cause` is empty if that is all; else faults may be missing, for this `reason`."""

    state: FaultState
    cause: str = ""
    reason: str = ""


def parse_state(data: bytes) -> Loaded:
    """Return the state in a file, as far as it can be understood."""
    reader = _Reader()
    state = reader.read_state(reader.read_content(data))
    end = _CHECKSUM.search(data)
    if end and end[1] != b"%08x" % zlib.crc32(data[: end.start()]):
        reader.problems.append((DAMAGED, "the checksum differs"))
    cause, reason = min(reader.problems, key=lambda each: _WORST_FIRST.index(each[0]), default=("", ""))
    return Loaded(state, cause, reason)


class _UnknownError(Exception):
    """A record has a value that this version does not know, and that was noted."""


class _Reader:
    """Reads one file, and notes as (cause, reason) what it could not understand."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []

    def read_content(self, data: bytes) -> dict[str, Any]:
        try:
            found: Any = json.loads(data)
        except RECORD_ERRORS as error:
            self._note_problem(DAMAGED, error)
            found = _whole_part(data.decode("utf-8", "replace"))
        if not isinstance(found, dict):
            self._note_problem(DAMAGED, "no object")
            return {}
        return found  # pyright: ignore[reportUnknownVariableType]

    def read_state(self, stored: dict[str, Any]) -> FaultState:
        content = _with_present_names(stored)

        def pair(entry: Any) -> tuple[str, str]:
            name, kind = entry
            return str(name), str(kind)

        def switch(entry: dict[str, Any]) -> SwitchFault:
            name, sxid = (self._read_text(entry[key])[:_MAX_ID_CHARACTERS] for key in ("switch", "sxid"))
            return SwitchFault(name, sxid, self._read_date(entry["since"]))

        if content.get("version") != VERSION:
            self._note_problem(OTHER_VERSION if "version" in content else DAMAGED, f"version {content.get('version')}")
        if unknown := sorted(content.keys() - _KEYS):
            self._note_problem(UNKNOWN, f"unknown {unknown}")
        devices = content.get("devices")
        known = devices.items() if isinstance(devices, dict) else self._read_list(devices)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return FaultState(
            self._read_text(content.get("boot")),
            dict(self._read_records(known, self._read_gpu)),  # pyright: ignore[reportUnknownArgumentType]
            tuple(self._read_records(self._read_list(content.get("faults")), self._read_fault)),
            frozenset(self._read_records(self._read_list(content.get("accepted")), pair)),
            self._read_date(content.get("acknowledged_until", 0)),
            tuple(
                self._read_records(
                    self._read_list(content.get("switches", None if "switches_last_reset" in content else ())), switch
                )
            ),
            self._read_date(content.get("switches_last_reset", 0)),
            self._read_date(content.get("unnamed_last_reset", 0)),
            self._read_date(content.get("booted", 0)),
        )

    def _note_problem(self, cause: str, reason: object) -> None:
        self.problems.append((cause, str(reason) or type(reason).__name__))

    def _read_list(self, value: Any) -> Iterable[Any]:
        if isinstance(value, list | tuple):
            return value  # pyright: ignore[reportUnknownVariableType]
        self._note_problem(DAMAGED, "a list is missing")
        return ()

    def _read_records(self, entries: Iterable[Any], understand: Callable[[Any], T]) -> Iterator[T]:
        """Yield the records that are understood."""
        for number, entry in enumerate(entries):
            if number == _MAX_ENTRIES:
                self._note_problem(DAMAGED, f"more than {_MAX_ENTRIES} entries")
                return
            try:
                yield understand(entry)
            except _UnknownError:
                continue
            except RECORD_ERRORS as error:
                self._note_problem(DAMAGED, error)

    def _read_text(self, value: Any) -> str:
        if not isinstance(value, str):
            self._note_problem(DAMAGED, "a text is missing")
            return ""
        return value

    def _read_date(self, value: Any) -> UnixTime:
        try:
            return parse_date(value)
        except RECORD_ERRORS as error:
            self._note_problem(DAMAGED, error)
            return EPOCH

    def _read_gpu(self, item: tuple[str, dict[str, Any]]) -> tuple[str, GpuRecord]:
        uuid, entry = item[0], _with_present_names(item[1])
        names = {field.name for field in fields(GpuRecord)}
        if unknown := sorted(entry.keys() - names):
            self._note_problem(UNKNOWN, f"unknown {unknown}")
        known = {name: value for name, value in entry.items() if name in names and _is_like(value, getattr(_NEW, name))}
        if wrong := sorted(entry.keys() & names - known.keys()):
            self._note_problem(DAMAGED, f"no value: {', '.join(wrong)}")
        return uuid, GpuRecord(**known)

    def _read_fault(self, entry: dict[str, Any]) -> Fault:
        kind, evidence = self._one_of(FaultKind, entry["kind"], None), self._read_text(entry["evidence"])
        action = self._one_of(RepairAction, entry["action"], RepairAction.INSPECT)
        return Fault(
            self._read_text(entry["uuid"]),
            int(entry["index"]),
            FaultKind.LOST if evidence == f"{XID_EVIDENCE}{FALLEN_OFF}" else kind,  # which was XID in earlier versions
            evidence[:_MAX_EVIDENCE_CHARACTERS],
            action,
            self._read_date(entry["since"]),
        )

    def _one_of(self, choices: type[K], value: Any, otherwise: K | None) -> K:
        try:
            return choices(value)
        except ValueError as error:
            self._note_problem(UNKNOWN, error)
            if otherwise is None:
                raise _UnknownError from None
            return otherwise


def _with_present_names(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {_EARLIER_NAMES.get(name, name): value for name, value in entry.items()}


K = TypeVar("K", FaultKind, RepairAction)


def _is_like(value: Any, new: object) -> bool:
    """Return whether a value has the type that a new record has in this field."""
    if isinstance(new, bool | str) or value is None:
        return isinstance(value, type(new))
    return isinstance(value, int | float) and math.isfinite(value)


def _whole_part(text: str) -> Any:
    """Parse a text that was cut off, up to its last complete value."""
    end, closing = 0, ""
    stack: list[str] = []
    for token in _TOKEN.finditer(text):
        bracket = token[0]
        if bracket in _CLOSING:
            stack.append(_CLOSING[bracket])
        elif bracket in "}]," and stack:
            if bracket != ",":
                stack.pop()
            end, closing = token.start() if bracket == "," else token.end(), "".join(reversed(stack))
        if len(stack) > _MAX_DEPTH:
            return None
    try:
        return json.loads(text[:end] + closing)
    except RECORD_ERRORS:
        return None


_MAX_BYTES = 4 << 20
_TOO_LARGE = "large"
UNREADABLE = "unreadable"
CAUSES = (DAMAGED, OTHER_VERSION, UNKNOWN, _TOO_LARGE, UNREADABLE)
"""Reasons why a file was not understood in full."""


class StateError(Exception):
    """One line on why the file cannot be used."""


def read_state(path: Path) -> Loaded:
    """Return what is understood of the file; an empty state if there is none. Raises StateError."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            return Loaded(FaultState(), _TOO_LARGE, f"larger than {_MAX_BYTES} bytes")
        return parse_state(read_bytes(path, _MAX_BYTES))
    except FileNotFoundError:
        return Loaded(FaultState())
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None


def set_aside(path: Path, cause: str) -> Path:
    """Keep the file under another name, too: one name for each cause. Raises StateError."""
    aside, new = _aside_path(path, cause), path.with_name(f".{path.name}.aside")
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
        path.replace(_aside_path(path, UNREADABLE))


def causes_set_aside(path: Path, booted: UnixTime) -> tuple[str, ...]:
    """Return why files were set aside since this boot, and are still there. A restart ended what they may show."""
    found: list[str] = []
    for cause in CAUSES:
        with contextlib.suppress(OSError):
            if _aside_path(path, cause).stat().st_ctime > float(booted):
                found.append(cause)
    return tuple(found)


def _aside_path(path: Path, cause: str) -> Path:
    return path.with_name(f"{path.name}.{cause}")


def write_state(path: Path, state: FaultState) -> None:
    """Replace the file, whole or not at all. Raises StateError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(new_file(new, 0o640), "w") as file:
            content = {
                "version": VERSION,
                "boot": state.boot,
                "booted": state.booted,
                "acknowledged_until": state.acknowledged_until,
                "faults": [asdict(fault) for fault in state.faults],
                "switches": [asdict(fault) for fault in state.switches],
                "switches_last_reset": state.switches_last_reset,
                "unnamed_last_reset": state.unnamed_last_reset,
                "accepted": sorted(state.accepted),
                "devices": {uuid: asdict(known) for uuid, known in state.confirmed_devices.items()},
            }
            text = json.dumps(content, separators=(",", ":"))[:-1]
            file.write(f'{text},"checksum":"{zlib.crc32(text.encode()):08x}"}}')
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            new.unlink()
        raise StateError(f"{path}: {error.strerror or error}") from None


log = logging.getLogger(__name__)

_SAVE_SECONDS = 300.0
"""Seconds after which changed counter values alone are saved; faults are saved at once."""
_RETRY_SECONDS = 30.0
"""Seconds after which a save that failed is tried again."""


class Saver:
    """Writes the last state it was offered."""

    def __init__(self, path: Path, write: Callable[[Path, FaultState], None] = write_state) -> None:
        self._path = path
        self._write = write
        self._wake = threading.Condition()
        self._next: FaultState | None = None
        self._stopped = False
        self._saved = NEVER
        self.success: bool | None = None
        """Result of the last write; None before the first has ended."""

    def offer_state(self, state: FaultState, monotonic: MonotonicTime, *, urgent: bool) -> None:
        """Save it soon where something `urgent` changed or long enough ago; else a later one."""
        if urgent or monotonic - self._saved >= (_RETRY_SECONDS if self.success is False else _SAVE_SECONDS):
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
