"""The small plots and bars of the status page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from exporter.core.clock import UnixTime
from exporter.ledger.palette import LOOKS, look, stacked
from exporter.web.history import SPAN

_WIDTH, _HEIGHT = 240, 44


def line(label: str, points: Sequence[tuple[UnixTime, float | None]], top: float, now: UnixTime) -> str:
    """A line over the last hour, from 0 to `top`; a gap where nothing was read."""
    if sum(value is not None for _, value in points) < 2:  # noqa: PLR2004 - a line needs two points
        return ""
    drawn, pen = "", "M"
    for time, value in points:
        if value is None or time < now - SPAN:
            pen = "M"
            continue
        x = (time - now + SPAN) / SPAN * _WIDTH
        y = _HEIGHT - 2 - min(max(value / top, 0.0), 1.0) * (_HEIGHT - 4)
        drawn += f"{pen}{x:.1f} {y:.1f}"
        pen = "L"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}"><path d="{drawn}"/></svg><figcaption>{escape(label)}</figcaption></figure>'
    )


def bar(seconds: float, states: Mapping[str, float]) -> str:
    """Where a GPU's time went, in the palette's words and colours."""
    total = sum(states.values())
    if total <= 0:
        return ""
    parts = "".join(
        f'<i style="width:{states[state] / total:.3%};background:{look(state).colour}" '
        f'title="{escape(look(state).title)}: {states[state] / total:.1%} ({duration(states[state])})"></i>'
        for state in ordered(states)
    )
    label = f"where its time went, {period(seconds)}"
    drawn = f'<div class="bar" role="img" aria-label="{label}">{parts}</div>'
    return f"<figure>{drawn}<figcaption>{label}</figcaption></figure>"


def legend(used: Mapping[str, float]) -> str:
    keys = "".join(
        f'<span><i style="background:{look(state).colour}"></i>{escape(look(state).title)}</span>'
        for state in ordered(used)
    )
    return f'<p class="legend">{keys}</p>' if keys else ""


def ordered(states: Mapping[str, float]) -> list[str]:
    """Those that took time, from what the GPU was bought for to what nobody holds; unknown ones last."""
    known = stacked(LOOKS)
    return sorted((s for s in states if states[s] > 0), key=lambda s: known.index(s) if s in known else len(known))


def period(seconds: float) -> str:
    return "last hour" if seconds >= SPAN - 180 else f"last {duration(seconds)}"


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
