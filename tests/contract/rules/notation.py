"""Promtool's notation of a series' values, minute by minute."""

from __future__ import annotations

import re
from collections.abc import Iterator

GONE = {"_", "stale"}
"""No sample; and the marker that Prometheus writes where a series ends."""
_TOKEN = re.compile(r"(?P<start>-?[\d.]+)(?P<step>[+-][\d.]+)?x(?P<times>\d+)|_x(?P<gap>\d+)|(?P<one>-?[\d.]+|_|stale)")


def minutes(values: str) -> Iterator[str]:
    """One value, `_` or `stale` for each minute."""
    for token in values.split():
        match = _TOKEN.fullmatch(token)
        assert match, token
        if match["times"]:
            start, step = float(match["start"]), float(match["step"] or 0)
            yield from (f"{start + turn * step!r}" for turn in range(int(match["times"]) + 1))
        elif match["gap"]:
            yield from "_" * int(match["gap"])
        else:
            yield match["one"]
