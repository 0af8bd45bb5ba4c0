"""When kernels run: a repeating on and off whose integral is known in closed form for any moment."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

_CELL = 8
"""Periods for which the duty stays the same. Two cells make a pair: what one has more, the other has less, so the
jitter leaves no trace in the mean and the integral needs no history."""


@dataclass(frozen=True, slots=True)
class Wave:
    """Active for the first `duty` (0 to 1) of every `period` seconds; `jitter` is the most the duty swings by."""

    period: float
    duty: float
    jitter: float = 0.0
    seed: int = 0

    def active(self, time: float) -> float:
        """Active seconds from 0 to `time`."""
        whole = math.floor(time / self.period)
        pair, into = divmod(whole, 2 * _CELL)
        swing = self._swing(pair)
        extra = swing * min(into, 2 * _CELL - into)
        duty = self.duty + (swing if into < _CELL else -swing)
        return self.period * (self.duty * whole + extra) + min(time - whole * self.period, duty * self.period)

    def on(self, time: float) -> bool:
        """Whether a kernel runs at this moment."""
        whole = math.floor(time / self.period)
        pair, into = divmod(whole, 2 * _CELL)
        swing = self._swing(pair)
        return time - whole * self.period < self.period * (self.duty + (swing if into < _CELL else -swing))

    def _swing(self, pair: int) -> float:
        widest = min(self.jitter, self.duty, 1.0 - self.duty)
        return widest * unit(self.seed, pair) if widest else 0.0


@functools.lru_cache(maxsize=512)
def unit(seed: int, number: int) -> float:
    """A number from -1 to 1 that looks random and is always the same for the same arguments."""
    mixed = ((number * 0x9E3779B1) ^ (seed * 0x85EBCA6B)) & 0xFFFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    return ((mixed ^ (mixed >> 12)) & 0xFFFF) / 32767.5 - 1.0
