"""Job: one workload of any kind and size on one page, its ranks as rows over time."""

from __future__ import annotations

from collections.abc import Callable

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import statetimeline, table, timeseries
from grafana_foundation_sdk.models import units

from dashboards.parts import block, mfu, panel, price, states, style, uid, variable, workload_resources
from dashboards.parts.frame import dashboard
from dashboards.parts.link import cell, to_gpu, to_node
from dashboards.parts.once import once
from dashboards.parts.query import (
    CLUSTER,
    GPU_HOURS,
    NODE,
    SOURCE,
    main_states,
    notable_state,
    now,
    over_time,
    owner_states,
    owners,
)
from dashboards.parts.style import BLUE
from dashboards.parts.table import Key, Table, Value, gauge, lost_state
from dashboards.parts.workload_kind import Kind
from exporter.tools.report.definitions import ALLOCATED, UTILIZATION, WASTED, identity

SCOPE = f'{CLUSTER}, workload="$workload"'
_NONE = "The workload had no GPU allocated in the time range"
_STARTED = f"workload:gpu_workload_start_time_seconds:max{{{SCOPE}}}"
_RESTARTED = f"workload:gpu_workload_restarts:max{{{SCOPE}}}"
_BY_GPU, _BY_NODE = "cluster, instance, gpu", "cluster, instance"
_FIRST = 12
_POINTS = 72
"""Steps of a row: of six hours, as long as what is recorded of each reaches back."""


def job() -> build.Dashboard:
    made = dashboard(
        "Job",
        uid.JOB,
        "One workload of any kind and size: its GPUs and ranks over time, restarts, steps, the host side and the cost so far.",
        (
            variable.one(
                "workload",
                "Workload",
                f'label_values(gpu_workload_allocated_gpus{{{CLUSTER}, workload!=""}}, workload)',
            ),
            variable.allocated_to(SCOPE),
        ),
        scope=SCOPE,
    ).annotation(_starts())
    made.with_row(build.Row("Summary"))
    _numbers(made)
    made.with_panel(_ledger())
    made.with_panel(_slowest())
    made.with_row(build.Row("Stragglers over time"))
    made.with_panel(_first_ranks())
    kind = Kind(noun="workload", scope=SCOPE, shown=SCOPE, owner_keys=(), onward=to_node(cell("Node")))
    made.with_row(build.Row("What the program reports of itself"))
    workload_resources.progress(made, kind)
    made.with_row(build.Row("The host side, by node"))
    _host(made)
    made.with_row(build.Row("Alerts"))
    made.with_panel(block.firing_for_owner(SCOPE))
    made.with_row(build.Row("Every node over time, of many").collapsed(collapsed=True).with_panel(_nodes()))
    made.with_row(build.Row("Every GPU over time, of many").collapsed(collapsed=True).with_panel(_ranks()))
    return made


def _starts() -> build.AnnotationQuery:
    """Annotate each start at the time of its value. Each is met more than once, on steps of minutes too."""
    return (
        build.AnnotationQuery()
        .name("Starts of its parts")
        .datasource(SOURCE)
        .enable(True)
        .icon_color(BLUE)
        .expr(once(f"{_STARTED} * 1000 and (changes({_STARTED}[10m]) > 0 or delta({_RESTARTED}[10m]) > 0)"))
        .use_value_for_time(True)
        .step("60s")
        .title_format("Restarts")
        .text_format("{{workload}}")
    )


def _numbers(made: build.Dashboard) -> None:
    everything = owners("workload", SCOPE, "")
    numbers = (
        ("Allocated GPUs", "Now, over all its pods and nodes.", f"sum(workload:gpu_workload_allocated_gpus:sum{{{SCOPE}}})", style.COUNT, 1),
        ("Pods and nodes", "Containers of pods, or the job on each of its nodes, with allocated GPUs now.", f"sum(workload:gpu_workload_parts:count{{{SCOPE}}})", style.COUNT, 0),
        ("Restarts", "In the time range: new pods, restarted containers, requeues. What starts within two and a half minutes counts once.", f"max(changes({_STARTED}[$__range]) > (max_over_time({_RESTARTED}[$__range]) - min_over_time({_RESTARTED}[$__range])) or (max_over_time({_RESTARTED}[$__range]) - min_over_time({_RESTARTED}[$__range])) or changes({_STARTED}[$__range]))", style.COUNT, 0),
        ("Utilization", f"Fraction of the allocated and observed GPU time of the range in which a kernel ran. {mfu.MEANING}", UTILIZATION.promql(everything), units.PercentUnit, 0),
        ("Allocated GPU h", "In the time range.", ALLOCATED.promql(everything), GPU_HOURS, 1),
        ("GPU hours wasted", "Allocated and idle, waiting or throttled, in the time range.", WASTED.promql(everything), GPU_HOURS, 1),
        ("Cost so far", f"Of its allocated GPU hours in the time range. {price.SOURCE}", price.total(price.allocated(SCOPE)), style.MONEY, 0),
        ("Straggling", "Fraction of the last five minutes in which the others on its node waited for its slowest GPU; what they wait for less than half of a cycle does not count.", f"max(workload:gpu_straggling:ratio_rate5m{{{SCOPE}}})", units.PercentUnit, 0),
    )  # fmt: skip
    for title, text, expr, unit, decimals in numbers:
        queries = mfu.beside(now(expr, "kernel ran"), SCOPE) if title == "Utilization" else now(expr)
        made.with_panel(
            panel.number(
                title,
                text,
                queries,
                unit,
                size=(3, 4),
                decimals=decimals,
                empty="not known",
                mappings=price.MAPPINGS if title == "Cost so far" else None,
            )
        )


def _ledger() -> timeseries.Panel:
    return panel.ledger(
        "Allocated GPUs by state",
        "GPUs' worth of time in each state, of all its pods and nodes.",
        over_time(owner_states("workload", SCOPE, "state", identity).of()),
        size=(14, 9),
        empty=_NONE,
    )


_OWNED = f"and on ({_BY_GPU}) (gpu_allocation_ratio{{{SCOPE}}} > 0)"


def _states(more: str = "") -> str:
    """Return the fraction of time in each state that took any, of the GPUs of its nodes, as recorded."""
    return f"gpu_state:gpu_state_seconds:rate5m{{{NODE}{more}}}"


def _waiting(moment: str = "") -> str:
    """Return the fraction of time that each of its GPUs waits for others."""
    return f"max by ({_BY_GPU}) (gpu:gpu_rank_wait:ratio_rate5m{{{NODE}}}{moment} and on ({_BY_GPU}) (gpu_allocation_ratio{{{SCOPE}}}{moment} > 0))"


_LESS = f"(topk({_FIRST}, scalar(avg({_waiting()})) - {_waiting()}) > -0.005)"
"""Those of them that wait as much as all do, to half a percent, or less."""


def _slowest() -> table.Panel:
    state = main_states(_states, _BY_GPU)
    straggled = f"sum by ({_BY_GPU}) (increase(gpu_workload_straggler_seconds_total{{{SCOPE}}}[$__range]))"
    return Table(
        title="The ranks that the others wait for now",
        description="Of all its GPUs the twelve that spend least of their time waiting for others now, as less than the "
        "average of all. Ranks that wait longer are left out. State: its largest loss where that takes a tenth of its time, else what takes most. Straggled: for how long the "
        "others on its node waited for it, in the time range; less than half of a cycle does not count. What a row shows is of the whole GPU, with whatever others do on a shared one.",
        keys=(
            Key("cluster", "Cluster", width=75),
            Key("instance", "Node", (to_node(cell("Node"), cell("Cluster")),), width=150),
            Key("gpu", "GPU", (to_gpu(cell("Node"), cell("GPU"), cell("Cluster")),), width=60),
        ),
        columns=(
            gauge("Waits less by", f"clamp_min({_LESS}, 0)", style.FRACTION_OF_TIME, width=160),
            lost_state("State", f"({state}) and on ({_BY_GPU}) {_LESS}"),
            Value("Straggled", f"{straggled} and on ({_BY_GPU}) {_LESS}", units.Seconds, decimals=1, width=100),
        ),
        sort="Waits less by",
        size=(10, 9),
        empty=_NONE,
    ).build()


def _first_ranks() -> statetimeline.Panel:
    return _rows(
        "The ranks that the others wait for, over time",
        "The twelve GPUs that at the end of the time range wait least for others: where most wait and one computes, reads "
        "or is throttled, that is the one.",
        notable_state(_states, _BY_GPU, f" and on ({_BY_GPU}) bottomk({_FIRST}, {_waiting(' @ end()')})"),
        "{{instance}} {{gpu}}",
        height=10,
        page=_FIRST,
        empty=_NONE,
    )


def _more_than(count: int, by: str, allocated: str) -> str:
    """Nothing where there are fewer in the whole time range: few rows would fill a panel that is made for many."""
    return f"and on () (count(count by ({by}) (max_over_time({allocated}{{{SCOPE}}}[$__range] @ end()) > 0)) > {count})"


def _nodes() -> statetimeline.Panel:
    by_node = f"part_state:gpu_workload_gpu_seconds:rate5m{{{SCOPE}"
    return _rows(
        "By node",
        "A row for each of its nodes, where they are two or more. A row that computes while the others wait is the one they wait for.",
        notable_state(
            lambda more: f"{by_node}{more}}}",
            _BY_NODE,
            f" {_more_than(1, _BY_NODE, 'gpu_workload_allocated_gpus')}",
            whole=f"sum by ({_BY_NODE}) ({by_node}}})",
        ),
        "{{instance}}",
        height=12,
        page=18,
        empty="It ran on no more than one node in the time range",
    )


def _ranks() -> statetimeline.Panel:
    return _rows(
        "By GPU",
        f"A row for each of its GPUs, where they are more than {_FIRST}, in the order of nodes: one rank each where a process has one GPU. Of many, drag over "
        "a part of the time to see it in more steps.",
        notable_state(_states, _BY_GPU, f" {_OWNED} {_more_than(_FIRST, _BY_GPU, 'gpu_allocation_ratio')}"),
        "{{instance}} {{gpu}}",
        height=22,
        page=40,
        empty=f"No more than {_FIRST} of its GPUs were allocated in the time range: the panel of its ranks above has them all",
    )


def _rows(title: str, text: str, expr: str, legend: str, *, height: int, page: int, empty: str) -> statetimeline.Panel:
    """Hundreds of rows, a page of them at a time where Grafana can turn pages (11.2 and newer)."""
    made = panel.timeline(
        title, f"{text} {block.TOLD}", over_time(expr, legend), states.by_code(), size=(24, height), empty=empty
    )
    return made.max_data_points(_POINTS).per_page(page)


def _host(made: build.Dashboard) -> None:
    graphs = (
        ("CPU", "Cores in use.", "sum", _rate_of("gpu_workload_cpu_seconds_total"), style.COUNT),
        ("Host memory", "In use, page cache left out.", "sum", _level_of("gpu_workload_resident_memory_bytes"), units.BytesIEC),
        ("Read", "From block devices.", "sum", _rate_of("gpu_workload_read_bytes_total"), units.BytesPerSecondSI),
        ("Pressure", "Fraction of time some of its tasks were stalled, for what stalled most.", "max", _rate_of("gpu_workload_pressure_seconds_total"), units.PercentUnit),
    )  # fmt: skip
    for title, text, operation, value, unit in graphs:
        at_end = f"{operation} by ({_BY_NODE}) ({value(' @ end()')})"
        expr = (
            f"{operation} by ({_BY_NODE}) ({value('')}) and on ({_BY_NODE}) (topk(6, {at_end}) or bottomk(6, {at_end}))"
        )
        of_many = f"{text} Of many nodes, the six that are highest and the six that are lowest in the end."
        query = over_time(expr, "{{instance}}")
        made.with_panel(panel.lines(title, of_many, query, unit, size=(6, 8), empty="The host does not report it"))


_At = Callable[[str], str]


def _rate_of(counter: str) -> _At:
    return lambda moment: f"rate({counter}{{{SCOPE}}}[$__rate_interval]{moment})"


def _level_of(gauge_: str) -> _At:
    return lambda moment: f"{gauge_}{{{SCOPE}}}{moment}"
