"""Waiting for what a cluster does in its own time."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class NotYetError(Exception):
    """What a `wait_for` condition raises while it does not hold."""


def wait_for(condition: Callable[[], T], seconds: float = 120) -> T:
    """The condition's first result. Raises the last NotYetError, or the last failed command, at the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return condition()
        except (NotYetError, subprocess.CalledProcessError, OSError):
            if time.monotonic() > deadline:
                raise
        time.sleep(0.3)
