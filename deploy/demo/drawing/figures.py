"""Single numbers and bars."""

from __future__ import annotations

from html import escape

from deploy.demo.drawing import data, fields, variables
from deploy.demo.drawing.data import Series, Source
from deploy.demo.drawing.document import Panel
from deploy.demo.drawing.fields import Field

_SHORT = 12
"""Characters that fit in large letters."""


def stat(panel: Panel, source: Source) -> str:
    found = data.series(panel, source)
    if not found:
        return f'<div class="stat none">{escape(fields.of(panel, "").text(None))}</div>'
    return "".join(_stat(panel, one, source) for one in found)


def _stat(panel: Panel, one: Series, source: Source) -> str:
    field = fields.of(panel, one.name)
    value = one.last
    named = panel.options.get("textMode") == "name"
    text = escape((field.name or one.name) if named else field.text(value))
    colour = field.colour(value) if panel.options.get("colorMode") == "value" else ""
    small = "" if len(text) <= _SHORT else "font-size:.9rem"
    style = f' style="color:{colour or "inherit"};{small}"'
    if field.links:
        clicked = variables.Clicked(field.text(value), labels=one.labels)
        url = variables.link(str(field.links[0].get("url", "")), source.variables, source.time, clicked)
        text = f'<a href="{escape(url)}"{style}>{text}</a>'
    return f'<div class="stat"{style}>{text}</div>'


def bars(panel: Panel, source: Source) -> str:
    found = [one for one in data.series(panel, source) if one.last is not None]
    if not found:
        return f'<p class="none">{escape(fields.of(panel, "").text(None))}</p>'
    highest = max(*(one.last or 0.0 for one in found), 1e-9)
    return f'<div class="bars">{"".join(_bar(one, fields.of(panel, one.name), highest) for one in found)}</div>'


def _bar(one: Series, field: Field, highest: float) -> str:
    value = one.last or 0.0
    share = max(value, 0.0) / (field.number("max") or highest)
    colour = field.colour(value) or fields.classic(0)
    return (
        f"<span>{escape(field.name or one.name)}</span>"
        f'<span class="track"><i style="width:{min(share, 1.0):.1%};background:{colour}"></i></span>'
        f"<b>{escape(field.text(value))}</b>"
    )
