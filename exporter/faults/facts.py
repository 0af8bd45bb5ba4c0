"""What is known of a node, as series of the exporter's own families.

A direct read of the driver and a running exporter say the same things in the same words, so that one set of rules
judges both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.core.clock import UnixTime
from exporter.core.families import AnyBlock


@dataclass(frozen=True, slots=True)
class Series:
    labels: Mapping[str, str]
    value: float

    @property
    def gpu(self) -> str:
        """Index of the GPU it is about; empty for the node."""
        return self.labels.get("gpu", "")


@dataclass(frozen=True, slots=True)
class Facts:
    """Series by family. `time` is the Unix time they are judged at."""

    series: Mapping[str, tuple[Series, ...]]
    time: UnixTime

    def of(self, family: str, **labels: str) -> tuple[Series, ...]:
        """Series of a family that carry these labels."""
        wanted = labels.items()
        return tuple(s for s in self.series.get(family, ()) if all(s.labels.get(k) == v for k, v in wanted))

    def value(self, family: str, **labels: str) -> float | None:
        """The value of the one such series, None without it."""
        found = self.of(family, **labels)
        return found[0].value if found else None

    @property
    def models(self) -> tuple[str, ...]:
        return tuple(series.labels.get("model", "") for series in self.of("gpu_info"))


def from_blocks(blocks: Iterable[AnyBlock], time: UnixTime) -> Facts:
    """Facts from what an exporter of this process has sampled, without a text between them."""
    found: dict[str, list[Series]] = {}
    for block in blocks:
        names = block.family.all_labels
        series = (Series(dict(zip(names, (*block.prefix, *s.labels), strict=True)), s.value) for s in block.samples)
        found.setdefault(block.family.name, []).extend(series)
    return Facts({name: tuple(series) for name, series in found.items()}, time)
