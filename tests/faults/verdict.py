"""What one planted fault may do, and what it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.rig import HURT, WELL, Key, Seen

ANSWERS_WITHIN = 1.0
"""Seconds one cycle may take while a call hangs. On a loaded machine a cycle waits for its turn, so the program that
prints the matrix judges it and no test does."""

_LARGEST: Mapping[str, float] = {
    "gpu_power_watts": 1400,
    "gpu_temperature_celsius": 150,
    "gpu_pcie_link_generation": 16,
    "gpu_pcie_link_max_generation": 16,
    "gpu_pcie_link_width": 64,
    "gpu_pcie_link_max_width": 64,
    "gpu_clock_hertz": 20e9,
    "gpu_memory_used_bytes": 2.0**50,
    "gpu_memory_total_bytes": 2.0**50,
}
"""Of an H100, which is what the rig has: twice its limit of 700 W, and what a sensor on a chip can show."""
_LARGEST_RATIO = 4
"""Fans may exceed 1."""
_IDENTIFIED = frozenset({"gpu_up", "gpu_power_watts", "gpu_memory_used_bytes"})
"""Families whose first two labels are index and UUID."""
_SLACK = 5.0
"""Seconds that a reading may lag, and then catch up."""
_HEALTH = (
    "gpu_scrape_collector_success",
    "gpu_up",
    "gpu_exporter_driver_error",
    "gpu_exporter_readings_rejected_total",
)
_FASTEST = {"bytes_total": 20e12, "joules_total": 20e3, "seconds_total": 1.3, "errors_total": 1e7}
"""What a counter may gain a second, by the end of its name."""


@dataclass(slots=True)
class Verdict:
    """Each list is empty where all was well."""

    slow: list[str] = field(default_factory=list[str])
    others: list[str] = field(default_factory=list[str])
    silent: list[str] = field(default_factory=list[str])
    back: list[str] = field(default_factory=list[str])
    absurd: list[str] = field(default_factory=list[str])
    lasting: list[str] = field(default_factory=list[str])
    effect: bool = False
    """Whether any series of the GPU, or of the exporter's health, was another than before."""

    @property
    def clean(self) -> bool:
        return not any(self.columns().values())

    def columns(self) -> Mapping[str, Sequence[str]]:
        return {
            "answers < 1 s": self.slow,
            "others unchanged": self.others,
            "loss is told": self.silent,
            "no counter back": self.back,
            "no absurd value": self.absurd,
            "recovers": self.lasting,
        }


def judge(
    before: Seen, during: Sequence[Seen], after: Sequence[Seen], spacing: Sequence[float], *, hangs: bool
) -> Verdict:
    """`spacing`: seconds between the cycles of `during` and `after` together, the first since `before`."""
    verdict = Verdict()
    cycles = (before, *during, *after)
    elapsed = 0.0
    for earlier, later, seconds in zip(cycles, cycles[1:], spacing, strict=False):
        elapsed += seconds
        verdict.back += _back(earlier, later)
        verdict.absurd += _absurd(before, later, elapsed)
    for each in during:
        if hangs and each.seconds > ANSWERS_WITHIN:
            verdict.slow.append(f"{each.seconds:.2f} s")
        verdict.others += sorted(f"{key[0]}" for key in before.of(WELL).keys() - each.of(WELL).keys())
        verdict.silent += _silent(before, each)
        verdict.effect = verdict.effect or _differs(before, each)
    verdict.lasting += sorted({key[0] for key in before.of(HURT).keys() - after[-1].of(HURT).keys()})
    return verdict


def _differs(before: Seen, now: Seen) -> bool:
    """Counters go on, and so do clocks: only levels are compared, and which series there are."""
    mine, other = before.of(HURT), now.of(HURT)
    levels = [key for key in mine if key not in before.counters and "timestamp" not in key[0]]
    return mine.keys() != other.keys() or any(mine[key] != other[key] for key in levels) or _told(before, now)


def _back(earlier: Seen, later: Seen) -> Iterator[str]:
    for key in later.counters & earlier.counters:
        if later.series[key] < earlier.series[key] - 1e-6:
            yield f"{key[0]} {earlier.series[key]:g} -> {later.series[key]:g}"


def _absurd(before: Seen, now: Seen, elapsed: float) -> Iterator[str]:
    """What no GPU can show, and counters that gained more since `before` than `elapsed` seconds allow."""
    for key, value in now.series.items():
        name = key[0]
        if not 0 <= value <= _LARGEST.get(name, float("inf")) and name in _LARGEST:
            yield f"{name} {value:g}"
        if key[0] in _IDENTIFIED and "" in key[1][:2]:
            yield f"{name} without uuid"
        if name.endswith("_ratio") and not 0 <= value <= _LARGEST_RATIO:
            yield f"{name} {value:g}"
        fastest = next((rate for end, rate in _FASTEST.items() if name.endswith(end)), None)
        if fastest is None or key not in now.counters or key not in before.series:
            continue
        gained = value - before.series[key]
        if gained > fastest * (elapsed + _SLACK):
            yield f"{name} gained {gained:g} in {elapsed:g} s"


def _silent(before: Seen, now: Seen) -> Iterator[str]:
    """Series of the hurt GPU that have gone although every health series says that all is well."""
    gone = before.of(HURT).keys() - now.of(HURT).keys()
    if gone and not _told(before, now):
        yield from sorted({name for name, _ in gone})


def _told(before: Seen, now: Seen) -> bool:
    def health(seen: Seen) -> dict[Key, float]:
        return {key: value for key, value in seen.series.items() if key[0] in _HEALTH}

    return health(before) != health(now)
