"""Panels as this house draws them: every one has a title, a description, a unit, and words for when it is empty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, statetimeline, text, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common as shared
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.text import TextMode

from dashboards.parts import states, style
from dashboards.parts.link import Link
from dashboards.parts.query import CLUSTER, RANGE, SOURCE, now
from exporter.tools.report import promql

Queries = prometheus.Dataquery | Sequence[prometheus.Dataquery]
_P = TypeVar("_P", timeseries.Panel, stat.Panel, bargauge.Panel, statetimeline.Panel, heatmap.Panel)


_NO_NUMBER = model.SpecialValueMap(
    model.DashboardSpecialValueMapOptions(
        match=model.SpecialValueMatch.NULL_AND_NAN, result=model.ValueMappingResult(text="-")
    )
)
"""The series that names why a panel is empty has no number. Without this, its legend states the panel's `noValue`."""


def _start(panel: _P, title: str, description: str, queries: Queries, size: tuple[int, int]) -> _P:
    width, height = size
    panel.title(title).description(description).datasource(SOURCE).span(width).height(height)
    listed = [queries] if isinstance(queries, prometheus.Dataquery) else list(queries)
    for index, query in enumerate(listed):
        panel.with_target(query.ref_id(chr(ord("A") + index)))
    return panel


def _finish(panel: _P, unit: str, empty: str, links: Iterable[Link]) -> _P:
    panel.unit(unit)
    if empty:
        panel.no_value(empty)
    found: list[Builder[model.DashboardLink]] = [link.build() for link in links]
    if found:
        panel.data_links(found)
    return panel


def covered(size: tuple[int, int]) -> stat.Panel:
    """Fraction of the time range for which there are recordings: what totals beside it cover."""
    return number(
        "Time with data",
        "Fraction of the time range for which rules have recorded anything: the totals cover no more.",
        now(f"clamp_max({promql.covered_seconds(CLUSTER, RANGE)} / $__range_s, 1)"),
        units.PercentUnit,
        steps=((None, style.ORANGE), (0.99, style.GREEN)),
        size=size,
        decimals=1,
        empty="no recordings",
    )


def number(
    title: str,
    description: str,
    queries: Queries,
    unit: str = style.COUNT,
    *,
    steps: style.Steps = style.PLAIN,
    size: tuple[int, int] = (4, 4),
    empty: str = "n/a",
    links: Sequence[Link] = (),
    spark: bool = False,
    decimals: int | None = None,
    mappings: list[model.ValueMapping] | None = None,
    ceiling: float | None = None,
) -> stat.Panel:
    """One big number (or one per series), coloured by what it means."""
    panel = _start(stat.Panel(), title, description, queries, size)
    _finish(panel, unit, empty, links)
    panel.thresholds(style.thresholds(steps)).color_mode(shared.BigValueColorMode.VALUE)
    panel.graph_mode(shared.BigValueGraphMode.AREA if spark else shared.BigValueGraphMode.NONE)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    if decimals is not None or unit == style.COUNT:
        panel.decimals(decimals or 0)
    if mappings:
        panel.mappings(mappings)
    if spark:
        panel.min(0)
    if ceiling is not None:
        panel.min(0).max(ceiling)
    return panel


def facts(
    title: str,
    description: str,
    query: prometheus.Dataquery,
    label: str,
    *,
    size: tuple[int, int] = (4, 3),
    empty: str = "n/a",
) -> stat.Panel:
    """A label's text (a model, a version) in place of a number."""
    panel = _start(stat.Panel(), title, description, query.legend_format(f"{{{{{label}}}}}"), size)
    _finish(panel, "none", empty, ())
    return (
        panel.text_mode(shared.BigValueTextMode.NAME)
        .color_mode(shared.BigValueColorMode.NONE)
        .graph_mode(shared.BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .text(common.VizTextDisplayOptions().title_size(15))
    )


def lines(
    title: str,
    description: str,
    queries: Queries,
    unit: str,
    *,
    size: tuple[int, int] = (12, 8),
    steps: style.Steps | None = None,
    ceiling: float | None = None,
    floor: float | None = 0,
    empty: str = "",
    links: Sequence[Link] = (),
    fill: int = 0,
    legend: shared.LegendPlacement = shared.LegendPlacement.BOTTOM,
    points: bool = False,
) -> timeseries.Panel:
    """Lines over time, the highest first in the tooltip; `steps` are drawn as dashed lines."""
    panel = _finish(_start(timeseries.Panel(), title, description, queries, size), unit, empty, links)
    panel.fill_opacity(fill).line_width(1)
    panel.show_points(shared.VisibilityMode.ALWAYS if points else shared.VisibilityMode.NEVER)
    calcs = ["last", "max"] if legend is shared.LegendPlacement.RIGHT else []
    mode = shared.LegendDisplayMode.TABLE if calcs else shared.LegendDisplayMode.LIST
    shown = common.VizLegendOptions().display_mode(mode).placement(legend).show_legend(True).calcs(calcs)
    panel.legend(shown.sort_by("Last").sort_desc(True) if calcs else shown)
    if calcs:
        panel.mappings([_NO_NUMBER])
    panel.tooltip(common.VizTooltipOptions().mode(shared.TooltipDisplayMode.MULTI).sort(shared.SortOrder.DESCENDING))
    if floor is not None:
        panel.min(floor)
    if ceiling is not None:
        panel.max(ceiling)
    if steps is not None:
        panel.thresholds(style.thresholds(steps)).color_scheme(
            build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC)
        )
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(shared.GraphThresholdsStyleMode.DASHED))
    return panel


def colour_series(panel: timeseries.Panel, name: str, colour: str, *more: model.DynamicConfigValue) -> timeseries.Panel:
    fixed = model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})
    return panel.override_by_name(name, [fixed, *more])


def name_series(panel: _P, names: Mapping[str, str]) -> _P:
    """Show series by these words in place of the label that distinguishes them."""
    for name, title in names.items():
        panel.override_by_name(name, [model.DynamicConfigValue("displayName", title)])
    return panel


def band(
    title: str,
    description: str,
    low_middle_high: tuple[prometheus.Dataquery, prometheus.Dataquery, prometheus.Dataquery],
    unit: str,
    names: tuple[str, str, str],
    *,
    size: tuple[int, int] = (12, 8),
    ceiling: float | None = None,
    steps: style.Steps | None = None,
    links: Sequence[Link] = (),
) -> timeseries.Panel:
    """The middle as a line, inside the band from low to high: a mean hides the one that differs."""
    low, middle, high = names
    panel = lines(title, description, low_middle_high, unit, size=size, ceiling=ceiling, steps=steps, links=links)
    thin = model.DynamicConfigValue("custom.lineWidth", 0)
    colour_series(panel, low, style.BLUE, thin)
    colour_series(panel, middle, style.BLUE, model.DynamicConfigValue("custom.lineWidth", 2))
    fill = (model.DynamicConfigValue("custom.fillBelowTo", low), model.DynamicConfigValue("custom.fillOpacity", 20))
    return colour_series(panel, high, style.BLUE, thin, *fill)


def ledger(
    title: str,
    description: str,
    query: prometheus.Dataquery,
    *,
    unit: str = style.COUNT,
    size: tuple[int, int] = (12, 9),
    ceiling: float | None = None,
    empty: str = "",
    links: Sequence[Link] = (),
) -> timeseries.Panel:
    """The states of a query with one series per state, stacked in the ledger's order and colours."""
    panel = lines(
        title,
        description,
        query.legend_format("{{state}}"),
        unit,
        size=size,
        ceiling=ceiling,
        empty=empty,
        links=links,
        fill=85,
        legend=shared.LegendPlacement.RIGHT,
    )
    panel.stacking(common.StackingConfig().mode(shared.StackingMode.NORMAL).group("A")).line_width(0)
    for step in _in_ledger_order():
        panel.with_transformation(step)
    for state in states.STATES:
        shown = model.DynamicConfigValue("displayName", states.TITLES[state])
        colour_series(panel, state, states.COLOURS[state], shown)
    unreachable = model.DynamicConfigValue("displayName", "Unreachable")
    return colour_series(panel, states.UNREACHABLE, style.RED, unreachable)


def _in_ledger_order() -> tuple[model.DataTransformerConfig, ...]:
    """Prometheus answers in the order of the alphabet; a stack is read from busy at its foot to free at its top."""
    order = {state: index for index, state in enumerate(("Time", *reversed(states.STATES), states.UNREACHABLE))}
    return (
        model.DataTransformerConfig(id_val="joinByField", options={"byField": "Time", "mode": "outer"}),
        model.DataTransformerConfig(
            id_val="organize", options={"excludeByName": {}, "indexByName": order, "renameByName": {}}
        ),
    )


_BAR_AT_LEAST, _BAR_AT_MOST = 16, 40
"""Pixels of a bar with its name: one alone does not fill its panel."""


def bars(
    title: str,
    description: str,
    queries: Queries,
    unit: str,
    *,
    size: tuple[int, int] = (8, 9),
    steps: style.Steps = style.PLAIN,
    empty: str = "",
    links: Sequence[Link] = (),
    ceiling: float | None = None,
) -> bargauge.Panel:
    """One horizontal bar per series."""
    panel = _finish(_start(bargauge.Panel(), title, description, queries, size), unit, empty, links)
    panel.orientation(shared.VizOrientation.HORIZONTAL).display_mode(shared.BarGaugeDisplayMode.BASIC)
    panel.value_mode(shared.BarGaugeValueMode.TEXT).show_unfilled(True).min(0)
    panel.sizing(shared.BarGaugeSizing.MANUAL).min_viz_height(_BAR_AT_LEAST).max_viz_height(_BAR_AT_MOST)
    panel.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.thresholds(style.thresholds(steps))
    if ceiling is not None:
        panel.max(ceiling)
    return panel


def state_bars(
    title: str,
    description: str,
    query: prometheus.Dataquery,
    unit: str,
    *,
    size: tuple[int, int] = (8, 9),
    empty: str = "",
    links: Sequence[Link] = (),
) -> bargauge.Panel:
    """One bar per state in its colour: the ledger of a time range."""
    panel = bars(title, description, query.legend_format("{{state}}"), unit, size=size, empty=empty, links=links)
    panel.decimals(1)
    for state in states.STATES:
        panel.override_by_name(
            state,
            [
                model.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": states.COLOURS[state]}),
                model.DynamicConfigValue("displayName", states.TITLES[state]),
            ],
        )
    return panel


STEPS = 240
"""Most steps of a state timeline: more are indistinguishable on a screen."""


def timeline(
    title: str,
    description: str,
    queries: Queries,
    mappings: list[model.ValueMapping],
    *,
    size: tuple[int, int] = (12, 8),
    empty: str = "",
    links: Sequence[Link] = (),
) -> statetimeline.Panel:
    """States over time, one row per series: what has no middle is not drawn as a line."""
    panel = _finish(_start(statetimeline.Panel(), title, description, queries, size), "none", empty, links)
    panel.mappings(mappings).merge_values(True).show_value(shared.VisibilityMode.NEVER).row_height(0.85)
    panel.fill_opacity(90).line_width(0).max_data_points(STEPS)
    panel.legend(
        common.VizLegendOptions()
        .display_mode(shared.LegendDisplayMode.LIST)
        .placement(shared.LegendPlacement.BOTTOM)
        .show_legend(True)
    )
    return panel


def note(title: str, description: str, markdown: str, *, size: tuple[int, int] = (24, 3)) -> text.Panel:
    width, height = size
    return (
        text.Panel()
        .title(title)
        .description(description)
        .mode(TextMode.MARKDOWN)
        .content(markdown)
        .span(width)
        .height(height)
    )
