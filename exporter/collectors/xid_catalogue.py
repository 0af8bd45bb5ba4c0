"""NVIDIA's catalogue of XIDs, and what a line of the kernel log states beyond the number.

`xids.tsv` has a row for each number: its class here, the immediate action that NVIDIA names, the driver branch from
which XID 154 states the recovery beside it, and the name. Sources and dates: docs/dev/xids.md.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.config.kinds import Choice, Pairs

IGNORE, PAGE = "ignore", "page"
INJECTED, UNKNOWN = "injected", "unknown"
"""Classes of tests, and of numbers that NVIDIA names no action for."""
RESET, RESET_WHEN_IDLE, RESTART = "reset_gpu", "reset_when_idle", "restart_bm"
FALLEN_OFF = 79
RECOVERY_CHANGED = 154
"""The driver advises another recovery than before; none, too. What it advises now is in `gpu_recovery_action`."""
NVLINK5 = range(144, 151)
DECODED = frozenset({RECOVERY_CHANGED, *NVLINK5})
"""XIDs of which the line in the kernel log states more than the number does."""
REENGAGED = {162: 163}
"""Key: an XID; value: the XID that it ends. Power smoothing is on again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One number. `recovery` is a driver branch, `always` or empty; `action` is empty where NVIDIA names none."""

    class_: str
    action: str
    recovery: str
    name: str


_ROWS = (pkgutil.get_data("exporter.collectors", "xids.tsv") or b"").decode().strip().split("\n")[1:]
_FIELDS = (["" if each == "-" else each for each in row.split("\t")] for row in _ROWS)
CATALOGUE: Mapping[int, Entry] = {int(xid): Entry(*rest) for xid, *rest in _FIELDS}

HARDWARE = (46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *NVLINK5, 155, 156, 158)
"""Codes of a GPU that needs a reset, a restart or a procedure, counted from 0 so that `increase()` sees the first one.
The others have a series from their first event on: every code on every GPU would be half of all series there are."""

SITE: Pairs[Mapping[int, str]] = Pairs(
    {}, lambda given: {int(xid): word for xid, word in given.items()}, r"[0-9]{1,4}", Choice((IGNORE, PAGE))
)
"""A site's own list, from `79=ignore,43=page`."""


def class_of(xid: int) -> str:
    """Return the class of a number by the catalogue alone."""
    return CATALOGUE[xid].class_ if xid in CATALOGUE else UNKNOWN


_RECOVERY = re.compile(r"recovery action changed from \S+ \([^()]*\) to 0x([0-9a-f]{1,8}) \([^()]*\)\s*", re.IGNORECASE)
_RECOVERIES = {0: IGNORE, 1: RESET, 2: RESTART, 4: RESET_WHEN_IDLE, 6: RESTART, 7: RESTART}
"""Index: nvmlDeviceGpuRecoveryAction_t (none, reset, reboot, drain and reset, bus reset, reboot of the system)."""
_LINK_ERROR = re.compile(
    r"(?P<unit>\w+)(?:/\w+)?\s+(?P<severity>Fatal|Non-?fatal)\s+XC\d+\s+i\d+\s+Link\s+-?\d+\s+"
    r"\((?P<info>0x[0-9a-f]{1,8}) (?P<status>0x[0-9a-f]{1,8})(?: 0x[0-9a-f]{1,8})*\)\s*",
    re.IGNORECASE,
)
_END = 200
"""Characters of a line in which its end is looked for."""
_HARMLESS_LINK_DOWN = frozenset({0b100110, 0b101000})
"""Reasons of a link that is down, by bits 20 to 25 of the first word: on purpose, and by the host."""
_RXPIPE = ((0x3FF, 0b0011000010, 1 << 10), (0x7F, 0b0000110, 1 << 7))
"""Mask and value of this unit in the first word, and the bit of an error that needs a reset: before R575 and since."""
_RXPIPE_LOSSES = 0b111
"""Bit in the status of RLW_RXPIPE: packets were lost."""


def decode_class(xid: int, text: str) -> str:
    """Return the class that the end of a line in the kernel log states; empty where it states none.

    What stands before the end may be of a user: the name of a process.
    """
    text = text[-_END:]
    if xid == RECOVERY_CHANGED and (advice := _match_end(_RECOVERY, text)):
        return _RECOVERIES.get(int(advice[1], 16), "")
    if xid in NVLINK5 and (error := _match_end(_LINK_ERROR, text)):
        return RESET if _needs_reset(error) else IGNORE
    return ""


def _match_end(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Return the match that reaches to the end of the text."""
    return next((found for found in pattern.finditer(text) if found.end() == len(text)), None)


def _needs_reset(error: re.Match[str]) -> bool:
    unit, info = error["unit"].upper(), int(error["info"], 16)
    if error["severity"].lower() == "fatal":
        return not (unit.startswith("NETIR_LINK") and info >> 20 & 0x3F in _HARMLESS_LINK_DOWN)
    if unit != "RLW_RXPIPE" or not int(error["status"], 16) & _RXPIPE_LOSSES:
        return False
    return any(info & mask == value and info & bit for mask, value, bit in _RXPIPE)
