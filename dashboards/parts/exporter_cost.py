"""What the exporters cost: CPU, memory, time, series."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import look, panel
from dashboards.parts.query import NODE, over_time, rate

BUILD = f"gpu_exporter_build_info{{{NODE}}}"
OF_EXPORTERS = f"and on (job, instance) {BUILD}"
"""Keeps the exporter's own process_… and scrape_… series among everybody's."""


def cost(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "CPU of the exporters",
            "Share of one core: the mean exporter and the dearest.",
            [
                over_time(f"avg({rate('process_cpu_seconds_total')} {OF_EXPORTERS})", "mean"),
                over_time(f"max({rate('process_cpu_seconds_total')} {OF_EXPORTERS})", "dearest"),
            ],
            units.PercentUnit,
            size=(8, 8),
            empty="Prometheus has no process metrics of the exporters",
        )
    )
    made.with_panel(
        panel.lines(
            "Memory of the exporters",
            "Resident: the mean exporter and the largest.",
            [
                over_time(f"avg(process_resident_memory_bytes {OF_EXPORTERS})", "mean"),
                over_time(f"max(process_resident_memory_bytes {OF_EXPORTERS})", "largest"),
            ],
            units.BytesIEC,
            size=(8, 8),
            empty="Prometheus has no process metrics of the exporters",
        )
    )
    made.with_panel(
        panel.lines(
            "Time of a pass",
            "Mean and slowest exporter. A pass reads the driver of all GPUs of the node.",
            [
                over_time(f"avg(gpu_exporter_pass_duration_seconds{{{NODE}}})", "mean"),
                over_time(f"max(gpu_exporter_pass_duration_seconds{{{NODE}}})", "slowest"),
            ],
            units.Seconds,
            size=(8, 8),
            empty="No exporter is scraped",
        )
    )
    made.with_panel(
        panel.lines(
            "Time of a scrape",
            "Mean and slowest, as Prometheus sees it.",
            [
                over_time(f"avg(scrape_duration_seconds {OF_EXPORTERS})", "mean"),
                over_time(f"max(scrape_duration_seconds {OF_EXPORTERS})", "slowest"),
            ],
            units.Seconds,
            size=(8, 8),
            empty="Prometheus has no scrapes of the exporters",
        )
    )
    made.with_panel(
        panel.lines(
            "Series",
            "Samples per scrape, summed over the exporters, and of the largest.",
            [
                over_time(f"sum(scrape_samples_scraped {OF_EXPORTERS})", "all"),
                over_time(f"max(scrape_samples_scraped {OF_EXPORTERS})", "largest"),
            ],
            look.COUNT,
            size=(8, 8),
            empty="Prometheus has no scrapes of the exporters",
        )
    )
    made.with_panel(
        panel.lines(
            "Series left out",
            "Process rows folded into pid 'other', or otherwise left out, per second.",
            over_time(f"sum by (reason) ({rate(f'gpu_exporter_series_dropped_total{{{NODE}}}')})", "{{reason}}"),
            units.CountsPerSecond,
            size=(8, 8),
            empty="Nothing was left out",
        )
    )
