"""Calendar months in the site's own time, of the report and of the accounting service."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in local time, Unix seconds."""

    name: str
    begin: float
    end: float

    @property
    def days(self) -> int:
        return round((self.end - self.begin) / 86400)


def month(value: str) -> Month:
    """Read `2026-10`. Raises ValueError."""
    try:
        begin = datetime.strptime(value, "%Y-%m")  # noqa: DTZ007 - the site's own time
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        return Month(value, begin.timestamp(), end.timestamp())
    except (ValueError, OverflowError):
        raise ValueError("a month such as 2026-10") from None


def month_at(time: float) -> Month:
    """Return the month of a Unix time."""
    return month(datetime.fromtimestamp(time).strftime("%Y-%m"))  # noqa: DTZ006 - the site's own time
