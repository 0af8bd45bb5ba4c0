"""The queries about GPUs that a workload did not hold all the time: of each, the time in which it held it."""

from __future__ import annotations

from exporter.tools.report.definitions import SCRAPE
from exporter.tools.report.promql import DEVICE, PLACE

_MOST, _LEAST, _SERIES = 4_000, 100, 32_000
"""Moments of a window that are looked at, and their number times that of the GPUs: of many there are fewer."""


class Turns:
    """Of so many GPUs, or MIG instances, in a window."""

    def __init__(self, devices: int, *, mig: bool) -> None:
        self._devices = max(1, devices)
        self._share = "gpu_mig_owner_share" if mig else "gpu_owner_share"

    def grown(self, counter: str, selector: str, window: str, *more: str) -> str:
        """How far a counter of the devices got: what it gained from moment to moment while the workload held them.

        A state that a device was never in before is counted from 0; where the exporter restarted, what it had first is
        left out. Replicas of one series are one before they are compared with the moment before: each sees it grow a
        little later than the other.
        """
        by, before = ", ".join((DEVICE, *more)), f"offset {self._step(window)}s"
        now, then = (f"max by ({by}) ({counter}{at})" for at in ("", f" {before}"))
        known = f"max by ({DEVICE}) ({counter} {before})"
        gained = f"({now} - {then} >= 0 or {now} unless {then} and on ({DEVICE}) {known})"
        return self._over("sum_over_time", gained, selector, window)

    def highest(self, gauge: str, selector: str, window: str) -> str:
        """Of all its samples from one moment to the next, where it was held at both."""
        step, own = f"{self._step(window)}s", f"on ({DEVICE}, {SCRAPE}) {self._share}{{{selector}}}"
        between = f"max_over_time({gauge}[{step}]) and {own} offset {step} > 0"
        return self._over("max_over_time", f"max by ({DEVICE}) ({between} or {gauge} and {own} > 0)", selector, window)

    def mean(self, gauge: str, selector: str, window: str) -> str:
        """As the same scrape has it that saw the workload there: another replica's is of a little earlier or later."""
        own = f"on ({DEVICE}, {SCRAPE}) {self._share}{{{selector}}}"
        return self._over("avg_over_time", f"max by ({DEVICE}) ({gauge} and {own} > 0)", selector, window)

    def seconds(self, selector: str, window: str) -> str:
        """For how long the workload held each."""
        step = self._step(window)
        return f"count_over_time(({self._holding(selector)})[{window}:{step}s]) * {step}"

    def _over(self, function: str, each: str, selector: str, window: str) -> str:
        held = f"{each} and on ({DEVICE}) ({self._holding(selector)})"
        return f"{function}(({held})[{window}:{self._step(window)}s])"

    def _holding(self, selector: str) -> str:
        """Also where series that end are there for five minutes more: the workload holds none on the node then."""
        here = f"max by ({PLACE}) (gpu_workload_gpus{{{selector}}}) > 0"
        return f"max by ({DEVICE}) ({self._share}{{{selector}}}) > 0 and on ({PLACE}) ({here})"

    def _step(self, window: str) -> int:
        points = min(_MOST, max(_LEAST, _SERIES // self._devices))
        return -(-int(window.removesuffix("s")) // points)
