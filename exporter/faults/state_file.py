"""The state as a small file: read once at the start, replaced in one move whenever it changes."""

from __future__ import annotations

import contextlib
import json
import math
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from exporter.faults.model import Action, Fault, FaultState, Kind, KnownGpu, SwitchFault, date
from exporter.host import giving

_VERSION = 1
_LARGEST = 4 << 20
_MAX_ENTRIES = 1024
"""GPUs and faults that are believed of one node."""
_LONGEST_ID = 16


class StateError(Exception):
    """One line on why the file cannot be used."""


def read(path: Path) -> FaultState:
    """The state in the file; an empty one where there is none. Raises StateError."""
    try:
        if path.stat().st_size > _LARGEST:
            raise StateError(f"{path}: larger than {_LARGEST} bytes")
        return _state(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return FaultState()
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise StateError(f"{path}: not the faults this version wrote: {error or type(error).__name__}") from None


def write(path: Path, state: FaultState) -> None:
    """Replace the file, whole or not at all. Raises StateError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.unlink(missing_ok=True)
        with os.fdopen(giving.new_file(new, 0o640), "w") as file:
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
        "version": _VERSION,
        "boot": state.boot,
        "acknowledged_until": state.acknowledged_until,
        "accepted": sorted(state.accepted),
        "devices": {uuid: asdict(known) for uuid, known in state.devices.items()},
        "faults": [asdict(fault) for fault in state.faults],
        "switches": [asdict(fault) for fault in state.switches],
        "switches_cured": state.switches_cured,
    }


def _state(content: dict[str, Any]) -> FaultState:
    if content["version"] != _VERSION:
        raise ValueError(f"version {content['version']}")
    devices = {str(uuid): _known(entry) for uuid, entry in content["devices"].items()}
    faults = tuple(_fault(entry) for entry in content["faults"])
    switches = tuple(_switch(entry) for entry in content.get("switches", ()))
    if max(len(devices), len(faults), len(switches)) > _MAX_ENTRIES:
        raise ValueError(f"more than {_MAX_ENTRIES} entries")
    accepted = frozenset((str(uuid), str(kind)) for uuid, kind in content["accepted"])
    return FaultState(
        str(content["boot"]),
        devices,
        faults,
        accepted,
        date(content["acknowledged_until"]),
        switches,
        date(content.get("switches_cured", 0)),
    )


def _known(entry: dict[str, Any]) -> KnownGpu:
    names = {field.name for field in fields(KnownGpu)}
    if not names >= entry.keys():
        raise ValueError(f"unknown {sorted(entry.keys() - names)}")
    numbers = ("links", "uncorrected", "marked", "low", "cured", "index")
    optional = (name for name in ("joules", "away", "back") if entry.get(name) is not None)
    given = [entry[name] for name in (*numbers, *optional)]
    if not all(isinstance(value, int | float) and math.isfinite(value) for value in given):
        raise ValueError("a number is none")
    return KnownGpu(**entry)


def _switch(entry: dict[str, Any]) -> SwitchFault:
    return SwitchFault(str(entry["switch"])[:_LONGEST_ID], str(entry["sxid"])[:_LONGEST_ID], date(entry["since"]))


def _fault(entry: dict[str, Any]) -> Fault:
    kind, action = Kind(entry["kind"]), Action(entry["action"])
    return Fault(
        str(entry["uuid"]),
        int(entry["index"]),
        Kind.LOST if kind is Kind.XID and action is Action.RESTART else kind,  # as earlier versions latched XID 79
        str(entry["evidence"])[:200],
        action,
        date(entry["since"]),
    )
