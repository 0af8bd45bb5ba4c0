"""A report between model and format: headings, facts, bars, tables and a list of things to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Name and value, one a line."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Bar:
    """`share` of the whole, 0 to 1; `tone` is good, fair, bad or none, for where there are few colours."""

    name: str
    amount: str
    share: float
    tone: str
    colour: str
    """#RRGGBB"""


@dataclass(frozen=True, slots=True)
class Bars:
    rows: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns whose head begins with `>` are numbers, set to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps to do, the most worthwhile first: title and text."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


Block = Heading | Facts | Bars | Table | Steps | Paragraph


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    blocks: Sequence[Block]
