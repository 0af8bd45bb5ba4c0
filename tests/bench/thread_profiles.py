"""Where the threads of this process spend their CPU time, all of them together."""

from __future__ import annotations

import cProfile
import pstats
import sys
import threading
import time
from types import FrameType


class _Profile(cProfile.Profile):
    """One thread's; it is read by another one while it goes on."""

    def create_stats(self) -> None:
        self.snapshot_stats()


class ThreadProfiles:
    """Profiles the thread that makes it and every thread begun later, by CPU time: a wait costs nothing."""

    def __init__(self) -> None:
        self._profiles: list[_Profile] = []
        threading.setprofile(self._begin)
        self._enable()

    def write(self, lines: int) -> None:
        """The functions that took most, callees left out, then with them."""
        threading.setprofile(None)
        sys.setprofile(None)
        stats = pstats.Stats(self._profiles[0])
        for profile in self._profiles[1:]:
            stats.add(profile)
        for order in ("tottime", "cumtime"):
            stats.strip_dirs().sort_stats(order).print_stats(lines)

    def _begin(self, _frame: FrameType, _event: str, _arg: object) -> None:
        """The first thing a new thread does."""
        self._enable()

    def _enable(self) -> None:
        profile = _Profile(time.thread_time)
        self._profiles.append(profile)
        profile.enable()
