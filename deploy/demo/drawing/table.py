"""Tables: the answers of several queries merged by their common labels, as Grafana's transformations do it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from html import escape

from deploy.demo.drawing import fields, variables
from deploy.demo.drawing.data import Source
from deploy.demo.drawing.document import Json, Panel, listed, mapping
from deploy.demo.drawing.fields import PLAIN, Field
from exporter.ledger.palette import LIGHT

Cell = float | str | None
Row = Mapping[str, Cell]
_LONGEST = 50
"""Rows drawn."""
_BRIGHT = 0.2
"""Luminance from which dark text has more contrast than white."""


def draw(panel: Panel, source: Source) -> str:
    rows = merged([_frame(target, source, alone=len(panel.targets) == 1) for target in panel.targets])
    names = _columns(rows, panel.transformation("organize") or {})
    columns = [(raw, shown, fields.of(panel, shown)) for raw, shown in names]
    if not rows:
        return f'<p class="none">{escape(fields.of(panel, "").text(None))}</p>'
    ordered = _sorted(rows, columns, panel)
    heads = "".join(f"<th{_width(field)}>{escape(field.name or shown)}</th>" for _, shown, field in columns)
    body = "".join(_row(row, columns, source) for row in ordered[:_LONGEST])
    more = f'<p class="none">and {len(ordered) - _LONGEST} more</p>' if len(ordered) > _LONGEST else ""
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{more}"


def merged(frames: Sequence[Sequence[Row]]) -> Sequence[Row]:
    """Rows of all frames; those that agree on the columns all frames have, and contradict nowhere, are one."""
    filled = [frame for frame in frames if frame]
    if not filled:
        return ()
    common = sorted(name for name in _names(filled[0]) if all(name in _names(frame) for frame in filled))
    made: list[dict[str, Cell]] = []
    by_key: dict[tuple[Cell, ...], list[dict[str, Cell]]] = {}
    for frame in filled:
        for row in frame:
            same = by_key.setdefault(tuple(row.get(name) for name in common), [])
            fits = next((one for one in same if all(one.get(name, cell) == cell for name, cell in row.items())), None)
            if fits is not None:
                fits.update(row)
                continue
            made.append(dict(row))
            same.append(made[-1])
    return made


def _names(frame: Sequence[Row]) -> Mapping[str, None]:
    """The columns of a frame, in order."""
    return dict.fromkeys(name for row in frame for name in row)


def _frame(target: Json, source: Source, *, alone: bool) -> Sequence[Row]:
    value = "Value" if alone else f"Value #{target.get('refId')}"
    return [
        {name: text for name, text in sample.labels.items() if name != "__name__"} | {value: sample.value}
        for sample in source.instant(target)
    ]


def _columns(rows: Sequence[Row], organize: Json) -> Sequence[tuple[str, str]]:
    """Name in the data and name shown, in the order wanted."""
    hidden, order = mapping(organize.get("excludeByName")), mapping(organize.get("indexByName"))
    shown = [name for name in _names(rows) if not hidden.get(name)]
    wanted = sorted(shown, key=lambda name: int(order.get(name, len(order))))
    renamed = mapping(organize.get("renameByName"))
    return [(name, str(renamed.get(name) or name)) for name in wanted]


def _sorted(rows: Sequence[Row], columns: Sequence[tuple[str, str, Field]], panel: Panel) -> Sequence[Row]:
    ordered = list(rows)
    for wish in reversed(listed(panel.options.get("sortBy"))):
        raw = next((raw for raw, shown, _ in columns if shown == wish.get("displayName")), None)
        if raw is not None:
            ordered = sorted(ordered, key=partial(_order, raw), reverse=bool(wish.get("desc")))
    return ordered


def _order(column: str, row: Row) -> tuple[int, float, str]:
    cell: Cell = row.get(column)
    if cell is None:
        return 0, 0.0, ""
    return (1, 0.0, cell) if isinstance(cell, str) else (1, cell, "")


def _row(row: Row, columns: Sequence[tuple[str, str, Field]], source: Source) -> str:
    shown = {name: field.text(row.get(raw)) for raw, name, field in columns}
    return f"<tr>{''.join(_cell(row.get(raw), field, shown, source) for raw, _, field in columns)}</tr>"


def _cell(cell: Cell, field: Field, row: Mapping[str, str], source: Source) -> str:
    text = escape(field.text(cell or None if isinstance(cell, str) else cell))
    colour = field.colour(cell) if field.cell != "auto" else ""
    if field.cell == "gauge" and isinstance(cell, float):
        share = min(max(cell / (field.number("max") or 1.0), 0.0), 1.0)
        text = f'<i class="gauge" style="width:{share * 60:.0f}px;background:{colour or PLAIN}"></i>{text}'
    filled = f"background:{colour};color:{ink_on(colour)}" if colour and field.cell == "color-background" else ""
    style = f' style="{filled or f"color:{colour}"}"' if colour else ""
    kind = ' class="n"' if isinstance(cell, float) else ""
    if field.links and cell not in (None, ""):
        clicked = variables.Clicked(field.text(cell), str(cell), row)
        url = variables.link(str(field.links[0].get("url", "")), source.variables, source.time, clicked)
        text = f'<a href="{escape(url)}">{text}</a>'
    return f"<td{kind}{style}>{text}</td>"


def ink_on(colour: str) -> str:
    """The colour of text that can be read on `colour`, written #rrggbb."""
    if not re.fullmatch("#[0-9A-Fa-f]{6}", colour):
        return LIGHT.card
    red, green, blue = ((int(colour[at : at + 2], 16) / 255) ** 2.2 for at in (1, 3, 5))
    return LIGHT.ink if 0.21 * red + 0.72 * green + 0.07 * blue > _BRIGHT else LIGHT.card


def _width(field: Field) -> str:
    width = field.custom("width")
    return f' style="width:{int(width)}px"' if isinstance(width, int | float) else ""
