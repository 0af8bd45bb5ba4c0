"""Finished samples of one metric family."""

from __future__ import annotations

from typing import Any

from exporter.core.families import AnyFamily, Columns, Sample, Values
from exporter.core.record import record


@record
class Block:
    """Finished samples of one family; `prefix` are the values of the family's prefix labels."""

    family: AnyFamily
    prefix: Values
    source: Columns
    """What the samples are made of, which here are they themselves: the same object stands for the same samples."""

    @property
    def columns(self) -> Columns:
        return self.source

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self.source)


@record
class LazyBlock:
    """Samples of one family that are made when somebody asks: passes are many, scrapes few."""

    family: AnyFamily
    source: Any
    """As of `Block`; it never changes."""
    prefix: Values = ()

    @property
    def columns(self) -> Columns:
        return self.family.columns(self.source)

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self.columns)


AnyBlock = Block | LazyBlock
