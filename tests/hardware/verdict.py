"""What was measured beside what it should be, and Markdown tables of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.hardware.figures import error_percent

OK, DIFFERS, UNMEASURED = "ok", "**differs**", "not measured"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tolerance` is in percent of the reference. A missing number is not measured, never zero."""

    quantity: str
    unit: str
    measured: float | None
    reference: float | None
    against: str
    """Where the reference comes from."""
    tolerance: float

    @property
    def error(self) -> float | None:
        return error_percent(self.measured, self.reference)

    @property
    def outcome(self) -> str:
        if self.error is None:
            return UNMEASURED
        return OK if abs(self.error) <= self.tolerance else DIFFERS

    def plain(self) -> dict[str, Any]:
        names = ("quantity", "unit", "measured", "reference", "against", "tolerance", "error", "outcome")
        return {name: getattr(self, name) for name in names}


def cell(value: Any) -> str:
    """A value as a table's cell: what is not known is a dash."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e6 else f"{value:.4e}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(cell, value))
    return " ".join(str(value).split()).replace("|", "\\|")


def table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; a row that does not fit the headings raises ValueError."""
    lines = [headings, ["---"] * len(headings)]
    for row in rows:
        if len(row) != len(headings):
            raise ValueError(f"a row of {len(row)} cells under {len(headings)} headings")
        lines.append([cell(value) for value in row])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def verdicts(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of `Verdict.plain` rows."""
    headings = ("Quantity", "Measured", "Reference", "Unit", "Against", "Error %", "Allowed %", "Verdict")
    names = ("quantity", "measured", "reference", "unit", "against", "error", "tolerance", "outcome")
    return table(headings, [[row[name] for name in names] for row in rows])
