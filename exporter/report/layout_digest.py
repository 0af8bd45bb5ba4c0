"""The digest of a period, laid out."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.report import words
from exporter.report.document import Block, Document, Facts, Heading, Paragraph, Table
from exporter.report.layout_job import bars, steps
from exporter.report.model import Digest, Row

_HEADINGS = {
    "account": "Accounts",
    "namespace": "Namespaces",
    "user": "Users",
    "workload": "Workloads that wasted most",
}
_MAX_ROWS = 30
"""Rows of a table, as on the dashboard."""


def document(digest: Digest, currency: str) -> Document:
    share = digest.wasted / digest.held if digest.held else None
    facts = Facts(
        (
            ("From", f"{words.when(digest.since)} to {words.when(digest.until)}"),
            ("Held", words.hours(digest.held)),
            ("Wasted", f"{words.hours(digest.wasted)}, {words.percent(share)} of what was held"),
        )
    )
    blocks: list[Block] = [facts]
    if digest.causes:
        blocks += [Heading("What it was wasted on"), bars(digest.causes)]
    blocks += [Heading("What to change"), steps(digest.advice)]
    for level, rows in digest.tables.items():
        blocks += [Heading(_HEADINGS[level]), _table(rows[:_MAX_ROWS], currency, digest.priced_by)]
        if len(rows) > _MAX_ROWS:
            blocks.append(Paragraph(f"The first {_MAX_ROWS} of {len(rows)}."))
    return Document(f"GPU hours of {digest.title}", tuple(blocks))


def _table(rows: Sequence[Row], currency: str, priced_by: str) -> Table:
    labels = tuple(label for label in rows[0].labels if any(row.labels[label] for row in rows))
    head = (
        *(label.capitalize() for label in labels),
        ">Held",
        ">Used",
        ">Utilization",
        ">Wasted",
        ">Price of use" if priced_by == "used" else ">Price of waste",
        "Wasted on",
    )
    return Table(
        head, [(*(row.labels[label] for label in labels), *_numbers(row, currency, priced_by)) for row in rows]
    )


def _numbers(row: Row, currency: str, priced_by: str) -> Sequence[str]:
    price = row.price_used if priced_by == "used" else row.price_wasted
    return (
        words.hours(row.held),
        words.hours(row.used),
        words.percent(row.utilization),
        words.hours(row.wasted),
        "-" if price is None else words.money(price, currency),
        words.title(row.state),
    )
