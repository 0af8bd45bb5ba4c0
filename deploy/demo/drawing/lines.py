"""Time series as lines or stacked areas, and states over time, as SVG."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from deploy.demo.drawing import data, fields
from deploy.demo.drawing.data import Series, Source
from deploy.demo.drawing.document import Panel, mapping
from deploy.demo.drawing.fields import PLAIN, Field
from deploy.demo.prometheus import Span

_WIDTH, _HEIGHT = 600.0, 150.0
_GAP = 3.5
"""Steps without a value after which a line breaks."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Curve:
    name: str
    field: Field
    colour: str
    points: Points
    """Points as drawn: stacked ones on top of those below."""
    base: Mapping[float, float]
    own: Points


def chart(panel: Panel, source: Source) -> str:
    curves = _curves(panel, data.series(panel, source))
    if not curves:
        return f'<p class="none">{escape(fields.of(panel, "").text(None))}</p>'
    low, high = _bounds(curves, fields.of(panel, ""))
    drawn = "".join(_curve(curve, source.span, low, high) for curve in curves)
    ticks = [low + (high - low) * part / 4 for part in range(5)]
    unit = fields.of(panel, "")
    axis = "".join(f"<span>{escape(unit.text(tick))}</span>" for tick in reversed(ticks))
    grid = "".join(f'<path class="grid" d="M0 {y:.0f}H{_WIDTH:.0f}"/>' for y in (0, 37.5, 75, 112.5, 150))
    return (
        f'<div class="chart"><div class="axis">{axis}</div><div class="plot">'
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" preserveAspectRatio="none">{grid}{drawn}</svg>'
        f'<div class="times">{_times(source.span)}</div></div></div>{_legend(curves)}'
    )


def states(panel: Panel, source: Source) -> str:
    found = data.series(panel, source)
    if not found:
        return f'<p class="none">{escape(fields.of(panel, "").text(None))}</p>'
    rows = "".join(_state_row(one, fields.of(panel, one.name), source.span) for one in found)
    return f'<div class="states">{rows}<span></span><div class="times">{_times(source.span)}</div></div>'


def _curves(panel: Panel, found: Sequence[Series]) -> Sequence[_Curve]:
    made: list[_Curve] = []
    stacked: dict[float, float] = {}
    for number, one in enumerate(found):
        field = fields.of(panel, one.name)
        points, base = one.points, {}
        if mapping(field.custom("stacking")).get("mode") == "normal":
            base = dict(stacked)
            points = [(at, value + base.get(at, 0.0)) for at, value in one.points]
            stacked.update(points)
        colour = field.colour(None) or _fixed(field) or fields.classic(number)
        made.append(_Curve(field.name or one.name, field, colour, points, base, one.points))
    return made


def _fixed(field: Field) -> str:
    colour = mapping(field.settings.get("color")).get("fixedColor")
    return str(colour) if colour else ""


def _bounds(curves: Sequence[_Curve], field: Field) -> tuple[float, float]:
    values = [value for curve in curves for _, value in curve.points]
    low, high = field.number("min"), field.number("max")
    low = min(values, default=0.0) if low is None else low
    high = max(values, default=1.0) if high is None else high
    return low, high if high > low else low + (abs(low) or 1.0)


def _curve(curve: _Curve, span: Span, low: float, high: float) -> str:
    def place(at: float, value: float) -> str:
        x = (at - span.start) / span.seconds * _WIDTH
        y = _HEIGHT - min(max((value - low) / (high - low), 0.0), 1.0) * _HEIGHT
        return f"{x:.1f} {y:.1f}"

    fill = float(curve.field.custom("fillOpacity") or 0) / 100
    width = curve.field.custom("lineWidth")
    title = f"<title>{escape(curve.name)}</title>"
    drawn = ""
    for run in _runs(curve.points, span.step * _GAP):
        top = "L".join(place(at, value) for at, value in run)
        if fill:
            bottom = "L".join(place(at, curve.base.get(at, low)) for at, _ in reversed(run))
            drawn += f'<path d="M{top}L{bottom}Z" fill="{curve.colour}" fill-opacity="{fill:.2f}">{title}</path>'
        if width != 0:
            drawn += f'<path class="line" d="M{top}" stroke="{curve.colour}">{title}</path>'
    return drawn


def _runs(points: Points, gap: float) -> Sequence[Points]:
    """Pieces without a gap."""
    made: list[list[tuple[float, float]]] = [list(points[:1])] if points else []
    for before, point in pairwise(points):
        if point[0] - before[0] > gap:
            made.append([])
        made[-1].append(point)
    return made


def _legend(curves: Sequence[_Curve]) -> str:
    keys = "".join(
        f'<span><i style="background:{curve.colour}"></i>{escape(curve.name)} '
        f"<b>{escape(curve.field.text(curve.own[-1][1]))}</b></span>"
        for curve in curves[:20]
        if curve.own
    )
    more = f"<span>and {len(curves) - 20} more</span>" if len(curves) > 20 else ""  # noqa: PLR2004 - a readable legend
    return f'<p class="legend">{keys}{more}</p>'


def _state_row(one: Series, field: Field, span: Span) -> str:
    parts = "".join(
        f'<i style="left:{(at - span.start) / span.seconds:.2%};width:{span.step / span.seconds * 1.05:.2%};'
        f'background:{field.colour(value) or PLAIN}" title="{escape(field.text(value))}"></i>'
        for at, value in one.points
    )
    return f'<span>{escape(field.name or one.name)}</span><span class="track">{parts}</span>'


def _times(span: Span) -> str:
    marks = [span.start + span.seconds * part / 4 for part in range(5)]
    return "".join(f"<span>{time.strftime('%H:%M:%S', time.localtime(mark))}</span>" for mark in marks)
