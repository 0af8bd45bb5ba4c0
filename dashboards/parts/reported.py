"""Work that programs report, each in its own units: samples, tokens, images, requests, steps."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common, timeseries
from grafana_foundation_sdk.models import common as shared
from grafana_foundation_sdk.models import units

from dashboards.parts import panel, style
from dashboards.parts.query import over_time
from dashboards.parts.table import Value
from exporter.tools.report.model import WORK

SILENT = "No program of the selection reports its progress"
LEGEND = "{{workload}} {{unit}}"
_BY = "cluster, workload"
_WORK = "workload_unit:gpu_workload_work:rate5m"
_WIDTHS = {"steps": 85, "requests": 100}


def work(scope: str) -> str:
    """A second, one series per workload and unit that it reports; steps have a graph of their own."""
    return f'sum by ({_BY}, unit) ({_WORK}{{{scope}, unit!="steps"}})'


def steps(scope: str) -> str:
    return f"max by ({_BY}) ({_rate('steps')}{{{scope}}})"


def per_gpu(scope: str) -> str:
    allocated = f"sum by ({_BY}) (workload:gpu_workload_allocated_gpus:sum{{{scope}}}) > 0"
    return f"{_any(scope)} / on ({_BY}) group_left () ({allocated})"


def joules(scope: str) -> str:
    """Return the energy of one unit of work."""
    watts = f"sum by ({_BY}) (workload:gpu_workload_energy_joules:rate5m{{{scope}}})"
    return f"{watts} / on ({_BY}) group_right () ({_any(scope)} > 0)"


def _any(scope: str) -> str:
    """Work in its units, and steps of those that report nothing else."""
    return f"sum by ({_BY}, unit) ({_WORK}{{{scope}}})"


def columns(scope: str, only: str = "") -> tuple[Value, ...]:
    """One for each unit. Of those that nobody reports Grafana shows no column."""
    return tuple(
        Value(
            f"{name.capitalize()}/s",
            f"{_rate(name)}{{{scope}}}{only}",
            style.COUNT,
            decimals=2 if name == "steps" else 1,
            width=_WIDTHS.get(name, 95),
            reduce="max" if name == "steps" else "sum",
        )
        for name in WORK
    )


def lines(
    title: str, description: str, expr: str, unit: str, *, size: tuple[int, int] = (12, 8), legend: str = LEGEND
) -> timeseries.Panel:
    """Draw thousands of tokens and one request in the same graph: powers of ten, and no line while nothing is done."""
    made = panel.lines(title, description, over_time(expr, legend), unit, size=size, empty=SILENT, floor=None)
    return made.scale_distribution(common.ScaleDistributionConfig().type(shared.ScaleDistribution.LOG).log(10))


def steps_lines(scope: str, *, size: tuple[int, int] = (12, 8)) -> timeseries.Panel:
    """Large models take minutes for one: with fewer digits all of the axis below 0.1 is 0."""
    text = "All ranks take them together."
    made = lines("Steps per second", text, steps(scope), units.OpsPerSecond, size=size, legend="{{workload}}")
    return made.decimals(3)


def _rate(name: str) -> str:
    return f"workload:gpu_workload_{name}:rate5m"
