"""Of several threads, or processes: how full the fullest is, and whether all that are as full poll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

_AS_FULL = 0.1
"""Of a CPU: between threads that are full all the time, it is the kernel's ticks that choose which has used more."""


class Hot(NamedTuple):
    """One thread, or the fullest of a process."""

    share: float | None = None
    polling: bool | None = None


NOT_KNOWN = Hot()


def hottest(found: Sequence[Hot]) -> Hot:
    """One that spins beside one that works must not hide the work: it polls only where all the full ones do."""
    shares = [each.share for each in found if each.share is not None]
    if not shares:
        return found[0] if found else NOT_KNOWN
    most = max(shares)
    polling = {each.polling for each in found if each.share is not None and each.share >= most - _AS_FULL}
    return Hot(most, False if False in polling else None if None in polling else True)
