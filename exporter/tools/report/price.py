"""What a GPU hour costs, by model, and how the options change it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """`models` is a pattern of gpu_info's model; the first row that matches wins, an empty one takes the rest."""

    models: str
    per_hour: float

    def __str__(self) -> str:
        """As `parse` reads it; `.` is every model."""
        return f"{self.models.removeprefix('.*').removesuffix('.*') or '.'}={self.per_hour:g}"


# fmt: off
PRICES = (
    Price(".*B(100|200|300).*",       5.00),
    Price(".*(H100|H200|H800|H20).*", 3.00),
    Price(".*(A100|A800).*",          1.80),
    Price(".*L4.*",                   1.00),
    Price("",                         0.60),
)
# fmt: on
"""Round numbers and no one vendor's prices; the dashboards begin with the same."""


def parse(value: str) -> tuple[Price, ...]:
    """`H200=2.5,A100=1.2`: rows that go before those above. Raises ValueError saying what was expected."""
    return tuple(_row(part.strip()) for part in value.split(",") if part.strip())


def _row(text: str) -> Price:
    models, _, amount = text.rpartition("=")
    try:
        re.compile(models)
        price = float(amount)
    except (ValueError, re.error):
        price = -1.0
    if not models or not 0 <= price < float("inf"):
        raise ValueError("MODEL=PRICE with commas between, such as H200=2.5,A100=1.2")
    return Price(f".*({models}).*", price)


def of(model: str, prices: Sequence[Price]) -> float:
    """Price of one hour of that model."""
    return next((row.per_hour for row in prices if not row.models or re.fullmatch(row.models, model)), 0.0)
