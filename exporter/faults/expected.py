"""Expected GPUs of this node, and whether it is out of service on purpose, by every source that reports it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm import gres
from exporter.host import program

_DEVICE = re.compile(r"/dev/nvidia[0-9]+")
_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 1 << 20
_STATE = re.compile(r"\bState=(\S+)")
_PARTITIONS = re.compile(r"^\s*Partitions=(\S+)", re.MULTILINE)
_REASON = re.compile(r"\bReason=(.*?)(?: \[[^\]]*@[^\]]*\])?\s*$", re.MULTILINE)
_OFF = frozenset({"MAINT", "MAINTENANCE", "POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "PLANNED_DOWN"})
_DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_BY_MACHINES = (
    *("gpu-exporter: ", "nhc", "health", "low ", "not responding", "node unexpectedly rebooted", "kill task failed"),
    *("prolog", "epilog", "step prolog", "duplicate jobid", "batch job complete"),
)
"""Reasons of Slurm itself or of a health check: such a node is drained because it is ill, and must be heard."""


def slurm_gpus(gres_conf: Path, names: frozenset[str]) -> int | None:
    """GPUs that gres.conf gives this node; None where it names no device files."""
    try:
        files = gres.files_of(gres_conf, names)
    except OSError:
        return None
    return len({file for group in files for file in group if _DEVICE.fullmatch(file)}) or None


class SlurmNodeState(NamedTuple):
    maintenance: bool
    """A person took it out of service."""
    pool: str = ""
    """Its partition; empty if it is in several, whose prices may differ."""


def slurm_state(scontrol: str, names: Sequence[str], *, required: bool = True) -> SlurmNodeState | None:
    """Return slurmctld's state of the node; None if it knows no name. Raises SourceError."""
    for name in names:
        try:
            text = program.output((scontrol, "show", "node", name), _TIMEOUT_SECONDS, _MAX_BYTES)
            return SlurmNodeState(in_maintenance(text), only_partition(text))
        except program.ProgramError as error:
            if f"Node {name} not found" not in str(error) or (required and name == names[-1]):
                raise SourceError(str(error)) from None
    return None


class SlurmNode:
    """Asks for the state of this node, from when Slurm is first seen here: slurmd may start after this."""

    def __init__(self, seen: Callable[[], bool], ask: Callable[[], SlurmNodeState | None]) -> None:
        self._seen = seen
        self._ask = ask
        self._here = False

    def __call__(self) -> SlurmNodeState | None:
        """None where there has been no sign of Slurm, or it has no such node. Raises SourceError."""
        self._here = self._here or self._seen()  # a configless slurmd that stops takes its files away
        return self._ask() if self._here else None


def parse_node(text: str) -> tuple[str, str]:
    """Return the state and the reason that `scontrol show node` prints. Raises ValueError where there is no state."""
    state, reason = _STATE.search(text), _REASON.search(text)
    if not state:
        raise ValueError(f"scontrol show node: no State in {text[:80]!r}")
    return state[1], reason[1] if reason else ""


def only_partition(text: str) -> str:
    """Return the partition that `scontrol show node` prints; empty for none and for several."""
    found = _PARTITIONS.search(text)
    return found[1] if found and "," not in found[1] and found[1] != "(null)" else ""


def in_maintenance(text: str) -> bool:
    """Return whether `scontrol show node` prints maintenance, powered down, or drained by a person."""
    try:
        state, reason = parse_node(text)
    except ValueError as error:
        raise SourceError(str(error)) from None
    words, why = set(re.split(r"[+*~#!%$@^-]", state)), reason.strip().lower()
    machines = why.startswith(_BY_MACHINES) or "[gpu-exporter" in why
    drained = bool(words & _DRAINED) and bool(why) and not machines
    return drained or bool(words & _OFF)


def boot_id(procfs: Path) -> str:
    """A new one at every start of the machine; empty where it cannot be read."""
    try:
        return (procfs / "sys/kernel/random/boot_id").read_text().strip()[:64]
    except (OSError, UnicodeDecodeError):
        return ""
