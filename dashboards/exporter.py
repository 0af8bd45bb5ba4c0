"""Exporter: whether the numbers on the other dashboards can be trusted, and what it costs to have them."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import table
from grafana_foundation_sdk.models import units

from dashboards.parts import exporter_cost, link, panel, style, uid, variable
from dashboards.parts.absence import ZERO
from dashboards.parts.exporter_cost import BUILD, of_exporters
from dashboards.parts.frame import dashboard
from dashboards.parts.once import SAME_TARGET
from dashboards.parts.query import NODE, now, rate
from dashboards.parts.table import Key, Table, Text, Value, cause

UP = f"max by (cluster, instance) (up and {SAME_TARGET} target:gpu_exporter:last{{{NODE}}})"
"""Query like that of the alert GpuExporterDown."""


def exporter() -> build.Dashboard:
    made = dashboard(
        "Exporter",
        uid.EXPORTER,
        "Whether the numbers can be trusted, and what it costs to have them.",
        (variable.nodes(),),
        scope=NODE,
    )
    made.with_row(build.Row("Now"))
    _numbers(made)
    made.with_panel(_exporters())
    made.with_row(build.Row("Collectors and sources"))
    _sources(made)
    made.with_row(build.Row("What it costs"))
    exporter_cost.cost(made)
    return made


def _numbers(made: build.Dashboard) -> None:
    size, narrow = (3, 4), (2, 4)
    made.with_panel(
        panel.number(
            "Up",
            "Exporters that Prometheus reaches.",
            now(f"sum({UP})"),
            style.COUNT,
            size=narrow,
            empty="no target serves the metrics of an exporter",
        )
    )
    made.with_panel(
        panel.number(
            "Down",
            "Exporters that Prometheus does not reach: nothing is known of their nodes.",
            now(f"count({UP} == 0){ZERO}"),
            style.COUNT,
            steps=style.RED_FROM_ONE,
            size=narrow,
        )
    )
    made.with_panel(
        panel.number(
            "Driver not open",
            "Nodes whose driver the exporter cannot open. Not those where it let go of the GPUs for maintenance. The table has the reason.",
            now(f'count(gpu_exporter_driver_error{{{NODE}, error!="RELEASED"}} == 1){ZERO}'),
            style.COUNT,
            steps=style.RED_FROM_ONE,
            size=size,
        )
    )
    made.with_panel(
        panel.number(
            "Oldest sample",
            "Of all exporters: seconds since it last looked at its GPUs.",
            now(f"max(time() - gpu_exporter_last_sample_timestamp_seconds{{{NODE}}})"),
            units.Seconds,
            steps=style.STALENESS,
            size=size,
            decimals=1,
            empty="no exporter",
        )
    )
    made.with_panel(
        panel.number(
            "Failing collectors",
            "Collectors whose last read failed on some GPU.",
            now(f"count(gpu_scrape_collector_success{{{NODE}}} == 0){ZERO}"),
            style.COUNT,
            steps=style.ORANGE_FROM_ONE,
            size=size,
        )
    )
    made.with_panel(
        panel.number(
            "Failing sources",
            "Attribution sources that failed when last asked: owners may be missing.",
            now(f"count(gpu_exporter_attribution_success{{{NODE}}} == 0){ZERO}"),
            style.COUNT,
            steps=style.ORANGE_FROM_ONE,
            size=size,
        )
    )
    made.with_panel(
        panel.number(
            "No owner found",
            "GPU processes whose owner is not known.",
            now(f"sum(gpu_exporter_unattributed_processes{{{NODE}}})"),
            style.COUNT,
            steps=style.ORANGE_FROM_ONE,
            size=size,
            empty="no exporter",
        )
    )
    made.with_panel(
        panel.number(
            "Simulated",
            "Nodes whose GPUs are simulated. Other than 0 in a real cluster is a mistake.",
            now(f"sum(gpu_exporter_simulated{{{NODE}}})"),
            style.COUNT,
            steps=style.ORANGE_FROM_ONE,
            size=size,
            empty="no exporter",
        )
    )
    made.with_panel(
        panel.number(
            "Doubled",
            "Nodes whose exporter two targets scrape. No panel counts them twice, but Prometheus keeps two of each series: drop one.",
            now(f"count(node:gpu_exporter_copies:ratio{{{NODE}}} > 1){ZERO}"),
            style.COUNT,
            steps=style.RED_FROM_ONE,
            size=narrow,
        )
    )


def _exporters() -> table.Panel:
    by = "cluster, instance"
    return Table(
        title="Exporters",
        description="One row per exporter: version, age of its last sample, and its cost. Click the node to see its GPUs.",
        keys=(
            Key("cluster", "Cluster", width=75),
            Key("instance", "Node", (link.to_node(link.cell("Node"), link.cell("Cluster")),), width=140),
        ),
        columns=(
            Value("Reached", UP, "none", mappings=tuple(style.YES_IS_GOOD), width=85),
            Text("Version", BUILD, "version", width=90),
            Text("Driver", f"gpu_driver_info{{{NODE}}}", "driver", width=110),
            Text(
                "Driver error",
                f'gpu_exporter_driver_error{{{NODE}}} == 1 or on ({by}) label_replace(0 * {BUILD}, "error", "none", "", "")',
                "error",
            ),
            Value(
                "Last sample",
                f"time() - gpu_exporter_last_sample_timestamp_seconds{{{NODE}}}",
                units.Seconds,
                style.STALENESS,
                decimals=1,
                width=120,
            ),
            Value(
                "Cycle", f"gpu_exporter_sampling_cycle_duration_seconds{{{NODE}}}", units.Seconds, decimals=1, width=85
            ),
            Value("Interval", f"gpu_exporter_sample_interval_seconds{{{NODE}}}", units.Seconds, decimals=1, width=80),
            Value(
                "Driver calls/min",
                f"{rate(f'gpu_exporter_driver_calls_total{{{NODE}}}')} * 60",
                style.COUNT,
                decimals=0,
                width=125,
            ),
            Value("CPU", of_exporters(rate("process_cpu_seconds_total")), units.PercentUnit, decimals=2, width=80),
            Value("Memory", of_exporters("process_resident_memory_bytes"), units.BytesIEC, decimals=0, width=95),
            Value("Series", of_exporters("scrape_samples_scraped"), style.COUNT, decimals=0, width=80),
            Value("Scrape", of_exporters("scrape_duration_seconds"), units.Seconds, decimals=1, width=85),
        ),
        sort="Last sample",
        size=(24, 11),
        empty="No exporter is scraped",
    ).build()


def _sources(made: build.Dashboard) -> None:
    made.with_panel(
        Table(
            title="Collectors",
            description="Per collector: on how many nodes its last read failed, and its slowest read.",
            keys=(Key("collector", "Collector"),),
            columns=(
                Value("Nodes", f"gpu_scrape_collector_success{{{NODE}}}", style.COUNT, width=80, reduce="count"),
                Value(
                    "Failing",
                    f"gpu_scrape_collector_success{{{NODE}}} < bool 1",
                    style.COUNT,
                    style.RED_FROM_ONE,
                    width=85,
                    reduce="sum",
                ),
                Value(
                    "Slowest read",
                    f"gpu_scrape_collector_duration_seconds{{{NODE}}}",
                    units.Seconds,
                    decimals=1,
                    width=120,
                ),
            ),
            sort="Failing",
            size=(8, 11),
            empty="No exporter is scraped",
        ).build()
    )
    made.with_panel(
        Table(
            title="Attribution sources",
            description="The sources of owners: whether each one works, the age of its oldest data, and its conflicts with others.",
            keys=(Key("source", "Source"),),
            columns=(
                Value("Nodes", f"gpu_exporter_attribution_success{{{NODE}}}", style.COUNT, width=65, reduce="count"),
                Value(
                    "Failing",
                    f"gpu_exporter_attribution_success{{{NODE}}} < bool 1",
                    style.COUNT,
                    style.RED_FROM_ONE,
                    width=80,
                    reduce="sum",
                ),
                Value(
                    "Oldest data",
                    f"gpu_exporter_attribution_age_seconds{{{NODE}}}",
                    units.Seconds,
                    decimals=1,
                    width=110,
                ),
                Value(
                    "Conflicts",
                    f"gpu_exporter_attribution_conflicts{{{NODE}}}",
                    style.COUNT,
                    style.ORANGE_FROM_ONE,
                    width=95,
                    reduce="sum",
                ),
            ),
            sort="Failing",
            size=(8, 11),
            empty="No attribution source is on: no owners are known",
        ).build()
    )
    made.with_panel(
        Table(
            title="Undetectable states",
            description="States of the ledger that need a signal which some GPUs or their hosts lack, and on how many GPUs. "
            "There the time is booked as busy or as waiting for an unknown cause.",
            keys=(cause("State"),),
            columns=(
                Value(
                    "GPUs that cannot",
                    f"max by (cluster, instance, gpu, state) (gpu_exporter_state_detectable{{{NODE}}} == 0)",
                    style.COUNT,
                    decimals=0,
                    reduce="count",
                ),
            ),
            sort="GPUs that cannot",
            size=(8, 11),
            empty="All states can be distinguished",
        ).build()
    )
