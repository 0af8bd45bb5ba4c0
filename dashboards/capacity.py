"""Capacity: whether to buy, tune or repair, in GPUs and money."""

from __future__ import annotations

from grafana_foundation_sdk.builders import common
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as shared
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units

from dashboards.parts import link, panel, price, style, uid
from dashboards.parts.frame import dashboard
from dashboards.parts.query import CLUSTER, GPU_HOURS, RANGE, now, over_time
from dashboards.parts.table import Key, Table, Value, cause
from exporter.ledger import palette
from exporter.tools.report import promql
from exporter.tools.report.definitions import grown_in

_DEMAND, _WAITING = "cluster:gpu_demand:sum", "cluster:gpu_pending:sum"
_ENOUGH = 0.01
"""Fraction of the GPUs below which a shortage is not worth an answer."""
_MONTH_HOURS = 730
_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_SUPPLY = {
    "allocated": style.GREEN, "reclaimable": style.ORANGE, "free": style.BLUE, "fragmented": style.YELLOW,
    "no CPU or memory": palette.STYLES["allocated_unused"].colour, "out of service": style.GREY, "unhealthy": style.RED,
}  # fmt: skip
_NO_QUEUE = "No work waits for GPUs, or no metrics of a scheduler are scraped"


def _mean(recorded: str) -> str:
    """Return the mean of the range."""
    return f"avg_over_time({recorded}{{{CLUSTER}}}[{RANGE}])"


def _now(recorded: str) -> str:
    return f"{recorded}{{{CLUSTER}}}"


_SIZES = (
    f"sum_over_time(cluster_size:gpu_pending_jobs:count{{{CLUSTER}}}[{RANGE}:5m])"
    f" / on (cluster) group_left () count_over_time({_now(_WAITING)}[{RANGE}:5m])"
)
"""A size has no series while nothing of it waits."""
_GPUS = f"sum({_mean('cluster_supply:gpus:sum')})"
_ANSWERS = f"sum by (cluster, answer) ({_mean('cluster_answer:gpu_shortage:sum')})"
_COST = promql.cost("cluster_state:gpu_owner_cost", CLUSTER, RANGE, promql.WHOLE)
_HOURS = f"sum by ({promql.WHOLE}) ({grown_in(RANGE)(_now('cluster_state:gpu_owner_gpu_seconds:increase'))})"
_MEAN_PRICE = f"(sum by (cluster) ({_COST}) / sum by (cluster) ({_HOURS} and {_COST}) * {_MONTH_HOURS})"
_TREND = 5 * 288
"""Moments of five days, below which there is no trend."""
_DEMANDED = f"sum({_now(_DEMAND)})"
_HISTORY = f"({_DEMANDED})[{RANGE}:5m]"


def capacity() -> build.Dashboard:
    made = dashboard(
        "Capacity",
        uid.CAPACITY,
        "Whether more GPUs are needed: buy, tune or repair, in GPUs and money.",
        (),
        scope=CLUSTER,
        span="now-7d",
        refresh="15m",
    )
    made.with_row(build.Row("Buy, tune or repair"))
    _answer(made)
    made.with_row(build.Row("Demand beside supply"))
    _supply(made)
    made.with_row(build.Row("Work that waits"))
    _queue(made)
    made.with_row(build.Row("Pattern and forecast"))
    _pattern(made)
    return made


def _answer(made: build.Dashboard) -> None:
    most = f"sum by (answer) ({_ANSWERS}) > on () group_left () ({_ENOUGH} * {_GPUS})"
    enough = f'label_replace(0 * sum({_now(_WAITING)}), "answer", "enough GPUs", "", "")'
    made.with_panel(
        panel.facts(
            "Answer",
            "What serves most of the GPUs that work waited for in the range. repair: GPUs that are unhealthy or out of "
            "service. tune: GPUs that are allocated and wasted, or free and unusable. buy: the rest. Below 1 % of the "
            "GPUs: enough GPUs.",
            now(f"topk(1, {most}) or on () {enough}"),
            "answer",
            size=(4, 7),
            empty="No metrics of a scheduler are scraped",
        )
    )
    made.with_panel(
        Table(
            title="GPUs that work waited for",
            description="Mean of the range by what would serve them, in this order. A GPU that is repaired or tuned need "
            f"not be bought. The cost is that of as many GPUs for a month of {_MONTH_HOURS} hours at the mean price of all "
            f"GPU hours of the range. {price.SOURCE}",
            keys=(
                Key("cluster", "Cluster"),
                Key("answer", "Answer", (link.to_health(), link.to_waste())),
            ),
            columns=(
                Value("GPUs", f"{_ANSWERS} > 0", style.COUNT, decimals=1, width=110, reduce="sum"),
                Value(
                    "Cost per month",
                    f"({_ANSWERS} > 0) * on (cluster) group_left () {_MEAN_PRICE}",
                    style.MONEY,
                    decimals=0,
                    width=130,
                    reduce="sum",
                ),
            ),
            sort="GPUs",
            size=(11, 7),
            empty="No work waited for GPUs",
        ).build()
    )
    made.with_panel(
        panel.number(
            "Demand",
            "Allocated and waiting GPUs in the range.",
            [
                now(f"quantile_over_time({quantile}, {_HISTORY})", name)
                for name, quantile in (("median", 0.5), ("95 %", 0.95), ("peak", 1))
            ],
            size=(6, 7),
            decimals=1,
        )
    )
    made.with_panel(panel.covered((3, 7)))


def _supply(made: build.Dashboard) -> None:
    graph = panel.lines(
        "Demand and supply",
        "All GPUs by what they are good for, and the demand as a line: allocated and waiting GPUs.",
        [
            over_time(f"sum by (supply) ({_now('cluster_supply:gpus:sum')})", "{{supply}}"),
            over_time(_DEMANDED, "demand"),
        ],
        style.COUNT,
        size=(12, 9),
        fill=60,
    )
    graph.stacking(common.StackingConfig().mode(shared.StackingMode.NORMAL).group("A"))
    for name, colour in _SUPPLY.items():
        panel.colour_series(graph, name, colour)
    alone = [("custom.stacking", {"mode": "none"}), ("custom.fillOpacity", 0), ("custom.lineWidth", 2)]
    line = [model.DynamicConfigValue(name, value) for name, value in alone]
    made.with_panel(panel.colour_series(graph, "demand", style.RED, *line))
    supply = f"sum by (cluster, supply) ({_mean('cluster_supply:gpus:sum')})"
    made.with_panel(
        Table(
            title="Supply",
            description="Mean GPUs of the range. reclaimable: allocated and wasted. out of service: cordoned or in "
            "maintenance. fragmented: too few on a node for any work that waits. no CPU or memory: too little on the "
            f"node. {price.SOURCE}",
            keys=(Key("supply", "Supply"),),
            columns=(
                Value("GPUs", supply, style.COUNT, decimals=1, width=90, reduce="sum"),
                Value(
                    "Cost per month",
                    f"{supply} * on (cluster) group_left () {_MEAN_PRICE}",
                    style.MONEY,
                    decimals=0,
                    width=120,
                    reduce="sum",
                ),
            ),
            sort="GPUs",
            size=(6, 9),
            empty="No GPU was known in the range",
        ).build()
    )
    lost = promql.causes(promql.TEAM, CLUSTER, RANGE)
    made.with_panel(
        Table(
            title="Reclaimable by cause",
            description="Wasted GPU hours of the range by cause, the largest first.",
            keys=(cause("Cause"),),
            columns=(Value("GPU hours", lost, GPU_HOURS, decimals=1, width=105, reduce="sum"),),
            sort="GPU hours",
            size=(6, 9),
            empty="Nothing was wasted in the range",
        ).build()
    )


def _queue(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "Waiting GPUs",
            "Requested GPUs of work that no node has room for: pods of kube-state-metrics, jobs of squeue, workloads of "
            "Kueue (estimated from its admitted ones).",
            over_time(f"sum by (source) ({_now('cluster_source:gpu_pending:sum')})", "{{source}}"),
            style.COUNT,
            size=(8, 8),
            empty=_NO_QUEUE,
        )
    )
    made.with_panel(
        panel.lines(
            "Waiting time",
            "How long waiting pods and jobs have waited: the median, the 95th percentile and the longest.",
            over_time(
                f"max by (source, quantile) ({_now('cluster_source_quantile:gpu_pending_seconds:quantile')})",
                "{{source}} {{quantile}}",
            ),
            units.Seconds,
            size=(8, 8),
            empty=_NO_QUEUE,
        )
    )
    made.with_panel(
        panel.bars(
            "Requested sizes",
            "Waiting pods and jobs by the GPUs that each requests, the mean of the range.",
            now(f"sum by (size) ({_SIZES})", "{{size}} GPUs"),
            style.COUNT,
            size=(8, 8),
            empty=_NO_QUEUE,
        )
    )


def _pattern(made: build.Dashboard) -> None:
    days = f'avg_over_time(({_DEMANDED} * on () group_right () count_values("day", day_of_week()))[{RANGE}:1h])'
    for number, day in enumerate(_DAYS):
        days = f'label_replace({days}, "day", "{day}", "day", "{number}")'
    made.with_panel(
        panel.lines(
            "Demand, and a week before",
            "Allocated and waiting GPUs.",
            [over_time(_DEMANDED, "now"), over_time(f"sum({_now(_DEMAND)} offset 1w)", "a week before")],
            style.COUNT,
            size=(12, 8),
        )
    )
    made.with_panel(
        panel.bars(
            "Demand by weekday",
            "Mean of the range, in days of UTC.",
            now(days, "{{day}}"),
            style.COUNT,
            size=(8, 8),
        )
    )
    made.with_panel(
        panel.number(
            "Demand in 30 days",
            "The linear trend of the range, continued, from five days of data on. Choose a range of 30 days or more.",
            now(f"clamp_min(predict_linear({_HISTORY}, 2592000), 0) and count_over_time({_HISTORY}) >= {_TREND}"),
            size=(4, 8),
            decimals=1,
            empty="Less than five days of data",
        )
    )
