"""Health: hardware that is broken or about to be, one table per kind of fault, empty ones saying so."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat, statetimeline, table
from grafana_foundation_sdk.models import units

from dashboards.parts import block, health_errors, health_links, link, panel, style, uid, variable
from dashboards.parts.absence import ZERO
from dashboards.parts.frame import dashboard
from dashboards.parts.query import ALERTS, NODE, THERMAL, answering, in_range, known, now, over_time, rate, with_text
from dashboards.parts.table import Key, Table, Text, Value, gauge

HARDWARE = f'class=~"{health_errors.HARDWARE_CLASSES}"'


def health() -> build.Dashboard:
    made = dashboard(
        "Health",
        uid.HEALTH,
        "What is broken or about to be, GPU by GPU.",
        (variable.nodes(),),
        scope=NODE,
        span="now-24h",
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_panel(_unreachable())
    made.with_panel(block.alerts(NODE))
    made.with_panel(_lost())
    made.with_panel(block.firing(NODE, size=(24, 9)))
    made.with_row(build.Row("Errors"))
    made.with_panel(health_errors.xids())
    made.with_panel(_advised())
    made.with_panel(health_errors.memory())
    made.with_row(build.Row("Heat, power and clocks"))
    _throttling(made)
    made.with_row(build.Row("Links"))
    made.with_panel(health_links.nvlink())
    made.with_panel(health_links.pcie())
    made.with_row(build.Row("When alerts fired"))
    made.with_panel(_over_time())
    return made


def _over_time() -> statetimeline.Panel:
    return panel.timeline(
        "Alerts over time",
        "When each GPU alert fired, in the colour of its severity; of many, the 20 that fired most in the time range.",
        over_time(_fired(), "{{title}}"),
        style.words({"2": ("critical", style.SEVERITY["critical"]), "1": ("warning", style.SEVERITY["warning"])}),
        size=(24, 13),
        empty="No GPU alert fired in the time range",
    )


def _fired() -> str:
    """2 while one of an alert's firings is critical, else 1."""
    fires = f'ALERTS{{{ALERTS}, severity!="info", {NODE}}}'
    critical = f'ALERTS{{{ALERTS}, severity="critical", {NODE}}}'
    most = f"topk(20, sum by (alertname) (count_over_time({fires}[$__range] @ end())))"
    return f"(max by (alertname) (2 * {critical} or {fires}) and on (alertname) {most}) {with_text('title')}"


def _count(
    title: str, description: str, expr: str, *, steps: style.Steps = style.RED_FROM_ONE, width: int = 3
) -> stat.Panel:
    return panel.number(title, description, now(f"{expr}{ZERO}"), style.COUNT, steps=steps, size=(width, 4), decimals=0)


def _numbers(made: build.Dashboard) -> None:
    made.with_panel(
        _count("Lost", "GPUs that the driver reports lost, or gives no reading of.", f"count({known(NODE)} == 0)")
    )
    made.with_panel(
        _count(
            "Hardware XIDs",
            "GPUs that logged an XID in the time range that is not the program's fault.",
            f"count(count by (cluster, instance, gpu) ({in_range(f'gpu_xid_last_timestamp_seconds{{{NODE}, {HARDWARE}}}')}))",
        )
    )
    made.with_panel(
        _count(
            "Uncorrected ECC",
            "GPUs with memory errors since the driver was loaded that ECC could not correct.",
            f'count(gpu_ecc_errors_total{{{NODE}, type="uncorrected"}} > 0)',
        )
    )
    made.with_panel(
        _count(
            "Remap failed",
            "GPUs whose memory could not be repaired: replace them.",
            f"count(gpu_row_remap_failed{{{NODE}}} == 1)",
        )
    )
    made.with_panel(
        _count(
            "Reset pending",
            "GPUs whose memory is repaired by the next reset: row remaps or retired pages are pending, or an error was contained.",
            f"count(count by (cluster, instance, gpu) (gpu_row_remap_pending{{{NODE}}} == 1 or gpu_retired_pages_pending{{{NODE}}} == 1 or "
            f'gpu_fault_timestamp_seconds{{{NODE}, action="reset_when_idle"}}))',
            steps=style.ORANGE_FROM_ONE,
        )
    )
    made.with_panel(
        _count(
            "Heat throttled",
            "GPUs that heat throttles now.",
            f"count(max by (cluster, instance, gpu) (gpu_throttle_active{{{NODE}, {THERMAL}}}) == 1)",
        )
    )
    made.with_panel(
        _count(
            "NVLinks down",
            "Links that are down on GPUs that have some up, or had.",
            f"sum({health_links.links_down(NODE)})",
        )
    )
    made.with_panel(
        _count(
            "PCIe too narrow",
            "GPUs whose PCIe link is narrower than it could be.",
            f"count(gpu_pcie_link_width{{{NODE}}} < gpu_pcie_link_max_width{{{NODE}}})",
        )
    )


def _unreachable() -> table.Panel:
    gpus = f"node:gpu_unreachable:count{{{NODE}}}"
    return Table(
        title="Unreachable nodes",
        description="Nodes that reported within seven days and report nothing now, with the GPUs they had. Nodes that were removed "
        "from Kubernetes, are in maintenance or powered down by Slurm are not in it.",
        keys=(
            Key("cluster", "Cluster", width=80),
            Key("instance", "Node", (link.to_node(link.cell("Node"), link.cell("Cluster")),)),
        ),
        columns=(Value("Last known GPUs", gpus, style.COUNT, style.RED_FROM_ONE, width=150),),
        sort="Last known GPUs",
        size=(10, 9),
        empty="Every node that reported within seven days reports now",
    ).build()


def _throttling(made: build.Dashboard) -> None:
    heat = rate(f"gpu_throttled_seconds_total{{{NODE}, {THERMAL}}}")
    brake = rate(f'gpu_throttled_seconds_total{{{NODE}, reason="hw_power_brake"}}')
    made.with_panel(
        Table(
            title="Hottest GPUs",
            description="The 20 GPUs with the least margin to their own threshold, and the fraction of time that heat or the power brake throttled them.",
            keys=health_links.keys(),
            columns=(
                Value(
                    "Margin",
                    f"gpu_temperature_margin_celsius{{{NODE}}}",
                    units.Celsius,
                    style.MARGIN,
                    width=80,
                    reduce="min",
                    wrap="bottomk(20, {})",
                ),
                Value(
                    "Temperature",
                    f'gpu_temperature_celsius{{{NODE}, sensor="gpu"}}',
                    units.Celsius,
                    style.HEAT,
                    width=105,
                ),
                gauge("Thermal throttling", answering(heat, NODE), style.FRACTION_OF_TIME),
                gauge("By the power brake", answering(brake, NODE), style.FRACTION_OF_TIME),
            ),
            sort="Margin",
            ascending=True,
            size=(12, 9),
            empty="No GPU reports its margin",
        ).build()
    )
    throttled = f"node:gpu_thermal_throttle:ratio_rate5m{{{NODE}}}"
    worst = f"topk(10, sum by (cluster, instance) (avg_over_time({throttled}[$__range] @ end())) > 0)"
    made.with_panel(
        panel.lines(
            "Thermal throttling, by node",
            "Mean fraction of time that heat throttled a node's GPUs: the ten nodes with most of it in the time range.",
            over_time(f"{throttled} and on (cluster, instance) {worst}", "{{instance}}"),
            units.PercentUnit,
            size=(12, 9),
            ceiling=1,
            links=(link.to_node(link.label("instance"), link.label("cluster")),),
            empty="Heat throttled no GPU in the time range",
        )
    )
    hottest = f"node:gpu_temperature_celsius:max{{{NODE}}}"
    names = ("median node", "hottest twentieth", "hottest GPU")
    made.with_panel(
        panel.band(
            "Hottest GPU over nodes",
            "Each node counts with its hottest GPU: the median node, the one that a twentieth of them are hotter than, and the hottest GPU of all.",
            (
                over_time(f"quantile(0.5, {hottest})", names[0]),
                over_time(f"quantile(0.95, {hottest})", names[1]),
                over_time(f"max({hottest})", names[2]),
            ),
            units.Celsius,
            names,
            steps=style.HEAT,
            size=(12, 8),
        )
    )
    made.with_panel(
        panel.name_series(
            panel.lines(
                "Clock throttling, by reason",
                "GPUs' worth of time, over the selection. A software power cap is normal under full load.",
                over_time(f"sum by (reason) (node_reason:gpu_throttled_seconds:rate5m{{{NODE}}}) > 0", "{{reason}}"),
                style.COUNT,
                size=(12, 8),
                fill=10,
                empty="No GPU reports throttling",
            ),
            style.REASONS,
        )
    )


def _advised() -> table.Panel:
    return Table(
        title="Recovery the driver asks for",
        description="GPUs for which the driver reports a recovery action.",
        keys=health_links.keys(),
        columns=(
            Text("Action", f'gpu_recovery_action{{{NODE}, action!="none"}} == 1', "action", tuple(style.RECOVERY)),
        ),
        sort="Node",
        ascending=True,
        size=(12, 9),
        empty="The driver asks for no recovery",
    ).build()


def _lost() -> table.Panel:
    lost = f"{known(NODE)} == 0"
    return Table(
        title="Lost GPUs",
        description="GPUs that the driver reports lost, or gives no reading of, and the age of the last reading.",
        keys=(*health_links.keys(), Key("uuid", "UUID", width=345)),
        columns=(
            Value(
                "Last answer",
                f"gpu_exporter_device_sample_age_seconds{{{NODE}}} and on (cluster, instance, uuid) ({lost}) or ({lost}) - 1",
                units.Seconds,
                decimals=1,
                mappings=tuple(style.words({"-1": ("never", style.RED)})),
                width=110,
            ),
        ),
        sort="Node",
        ascending=True,
        size=(24, 6),
        empty="The driver reports all GPUs",
    ).build()
