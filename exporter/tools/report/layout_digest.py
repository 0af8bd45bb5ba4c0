"""The digest of a period, laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from exporter.tools.report import words
from exporter.tools.report.document import Block, Document, Facts, Heading, Paragraph, Table
from exporter.tools.report.layout_job import bars, steps
from exporter.tools.report.model import Digest, Row

_HEADINGS = {
    "account": "Accounts",
    "namespace": "Namespaces",
    "user": "Users",
    "workload": "Workloads that wasted most",
}
_MAX_ROWS = 30
"""Rows of a table, as on the dashboard."""


def document(digest: Digest, currency: str) -> Document:
    facts = Facts(
        (
            ("From", f"{words.when(digest.since)} to {words.when(digest.until)}"),
            ("Held", words.hours(digest.held)),
            ("Wasted", _wasted(digest)),
        )
    )
    blocks: list[Block] = [facts]
    if digest.causes:
        blocks += [Heading("What it was wasted on"), bars(digest.causes)]
    blocks += [Heading("What to change"), steps(digest.advice, known=digest.wasted is not None)]
    for level, rows in digest.tables.items():
        blocks += [Heading(_HEADINGS[level]), _table(rows[:_MAX_ROWS], currency, digest.priced_by)]
        if len(rows) > _MAX_ROWS:
            blocks.append(Paragraph(f"The first {_MAX_ROWS} of {len(rows)}."))
    return Document(f"GPU hours of {digest.title}", tuple(blocks))


def _wasted(digest: Digest) -> str:
    if digest.wasted is None:
        return "nothing of it was observed"
    share = digest.wasted / digest.held if digest.held else None
    return f"{words.hours(digest.wasted)}, {words.percent(share)} of what was held"


def _table(rows: Sequence[Row], currency: str, priced_by: str) -> Table:
    labels = tuple(label for label in rows[0].labels if any(row.labels[label] for row in rows))
    columns = tuple(
        column
        for column in _numbers(priced_by, currency)
        if column.always or any(column.text(row) != words.percent(None) for row in rows)
    )
    head = (*(label.capitalize() for label in labels), *(column.title for column in columns))
    return Table(
        head, [(*(row.labels[label] for label in labels), *(column.text(row) for column in columns)) for row in rows]
    )


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    text: Callable[[Row], str]
    always: bool = True
    """Else it is left out where no row has anything."""


def _numbers(priced_by: str, currency: str) -> tuple[_Column, ...]:
    def price(row: Row) -> str:
        paid = row.price_used if priced_by == "used" else row.price_wasted
        return "-" if paid is None else words.money(paid, currency)

    return (
        _Column(">Held", lambda row: words.hours(row.held)),
        _Column(">Used", lambda row: words.hours(row.used)),
        _Column(">Utilization", lambda row: words.percent(row.utilization)),
        _Column(">MFU", lambda row: words.percent(row.model_flops_utilization), always=False),
        _Column(">MFU at most", lambda row: words.percent(row.model_flops_utilization_bound), always=False),
        _Column(">Wasted", lambda row: words.hours(row.wasted)),
        _Column(">Price of use" if priced_by == "used" else ">Price of waste", price),
        _Column("Wasted on", lambda row: words.title(row.state)),
    )
