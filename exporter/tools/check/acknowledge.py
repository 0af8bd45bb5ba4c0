"""`gpu-exporter acknowledge`: report that a fault is fixed, or that a GPU is not expected any more."""

from __future__ import annotations

import getpass
import json
import os
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from exporter.config.command_line import Page
from exporter.config.kinds import text
from exporter.config.logs import print_error
from exporter.config.option import ConfigError, option, section
from exporter.core.clock import UnixTime, unix_time
from exporter.core.printable import printable
from exporter.daemon.assembly import STATE_DIR, state_dir
from exporter.faults import state_file
from exporter.faults.acknowledgements import NAME as ACKNOWLEDGED
from exporter.faults.config import StateConfig
from exporter.faults.model import Acknowledgement, FaultKind
from exporter.faults.state_file import StateError
from exporter.faults.watch import NAME

PAGE = Page(
    "gpu-exporter acknowledge",
    "Clear a fault that no signal proves fixed; without --gpu, list the faults that stand. Needs root.",
    """\
exit status:
  0 listed or acknowledged   1 no such fault
  2 a wrong option, or no right to write

examples:
  gpu-exporter acknowledge
  gpu-exporter acknowledge --gpu 3 --reason 'card reseated, diag passed'
  gpu-exporter acknowledge --gpu 3 --fault nvlink_down --reason 'bridge out'
  gpu-exporter acknowledge --fault nvswitch --reason 'fabric reset'
""",
)
_GROUP = "Acknowledgement"
_MODE = 0o644
_KINDS = ", ".join(kind.value for kind in FaultKind)


@dataclass(frozen=True, kw_only=True)
class AcknowledgeConfig:
    """Every option of `gpu-exporter acknowledge`."""

    gpu: str = option("", text, "Index or UUID of the GPU.", metavar="GPU", group=_GROUP)
    fault: str = option(
        "",
        text,
        f"One of {_KINDS}; default: all of the GPU. nvswitch: without --gpu.",
        metavar="FAULT",
        group=_GROUP,
    )
    reason: str = option("", text, "Why it is over; kept and logged.", metavar="TEXT", group=_GROUP)
    by: str = option("", text, "Your name (default: $SUDO_USER, else the user).", metavar="NAME", group=_GROUP)
    state: StateConfig = section(StateConfig, group="Faults")


def run(config: AcknowledgeConfig) -> int:
    """Status as in the page above."""
    given = [name for name in ("fault", "reason", "by") if getattr(config, name)]
    of_switches = not config.gpu and config.fault == FaultKind.NVSWITCH.value
    if given and not config.gpu and not of_switches:
        raise ConfigError(f"--{given[0]}: expected with --gpu, the GPU whose fault is over")
    folder = state_dir(config.state) or STATE_DIR
    try:
        state = state_file.read_state(folder / NAME).state
    except StateError as error:
        raise ConfigError(str(error)) from None
    faults = state.faults
    if not config.gpu and not of_switches:
        found = [
            (f"GPU {fault.index}  {fault.kind.value}  {fault.evidence}", fault.since, fault.action.value)
            for fault in faults
        ]
        found += [(fault.evidence, fault.since, "a reset of all GPUs together") for fault in state.switches]
        for what, since, action in found:
            began = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(since)))
            sys.stdout.write(f"{printable(what)}  since {began}  repair: {action}\n")
        if not faults and not state.switches:
            print_error(f"no fault is known in {folder}")
        return 0
    # Later than the last one that was taken, also where the clock was set back since then: it would not be read.
    acknowledgement = _make_acknowledgement(config, max(unix_time(), state.acknowledged_until + 0.001))
    if not any(map(acknowledgement.covers, faults)) and not any(map(acknowledgement.covers_switch, state.switches)):
        print_error(f"GPU {acknowledgement.gpu} has no such fault" if config.gpu else "no NVSwitch has such a fault")
        return 1
    try:
        append(folder, acknowledgement)
    except StateError as error:
        raise ConfigError(str(error)) from None
    return 0


def _make_acknowledgement(config: AcknowledgeConfig, now: UnixTime) -> Acknowledgement:
    kind, reason = config.fault, " ".join(config.reason.split())
    if kind not in ("", *(each.value for each in FaultKind)):
        raise ConfigError(f"--fault: expected one of {_KINDS}, got {kind!r}")
    if not reason:
        raise ConfigError("--reason: expected why the fault is over")
    by = config.by or os.environ.get("SUDO_USER", "")
    if not by:
        try:
            by = getpass.getuser()
        except (KeyError, OSError):  # without a name here, as in a container
            by = str(os.getuid())
    return Acknowledgement(config.gpu, kind, by, reason, now)


def append(folder: Path, entry: Acknowledgement) -> None:
    """Add one line. Raises StateError."""
    path = folder / ACKNOWLEDGED
    content = {"time": entry.time, "gpu": entry.gpu, "fault": entry.kind, "by": entry.by, "why": entry.why}
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, _MODE)
        with os.fdopen(descriptor, "wb") as file:
            found = os.fstat(descriptor)
            if found.st_uid == os.geteuid():  # the exporter's user reads what root writes, whatever root's umask is
                os.fchmod(descriptor, stat.S_IMODE(found.st_mode) | _MODE)
            size = found.st_size
            broken = size and os.pread(descriptor, 1, size - 1) != b"\n"  # a line that a full disk cut off
            file.write(b"\n" * bool(broken) + json.dumps(content).encode() + b"\n")
    except OSError as error:
        raise StateError(f"{path}: {error.strerror or error}") from None
