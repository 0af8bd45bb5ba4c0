"""Cost of the exporters: CPU, memory, time, series."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import units

from dashboards.parts import panel, style
from dashboards.parts.once import SAME_TARGET
from dashboards.parts.query import NODE, over_time, rate

BUILD = f"gpu_exporter_build_info{{{NODE}}}"


def of_exporters(expr: str) -> str:
    """Return the series of each exporter once, among everybody's process_... and scrape_... series."""
    return f"max by (cluster, instance) ({expr} and {SAME_TARGET} {BUILD})"


def cost(made: build.Dashboard) -> None:
    made.with_panel(
        panel.lines(
            "CPU of the exporters",
            "Fraction of one core: the mean exporter and the dearest.",
            [
                over_time(f"avg({of_exporters(rate('process_cpu_seconds_total'))})", "mean"),
                over_time(f"max({of_exporters(rate('process_cpu_seconds_total'))})", "dearest"),
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
                over_time(f"avg({of_exporters('process_resident_memory_bytes')})", "mean"),
                over_time(f"max({of_exporters('process_resident_memory_bytes')})", "largest"),
            ],
            units.BytesIEC,
            size=(8, 8),
            empty="Prometheus has no process metrics of the exporters",
        )
    )
    made.with_panel(
        panel.lines(
            "Time of a cycle",
            "Mean and slowest exporter. A cycle reads the driver of all GPUs of the node.",
            [
                over_time(f"avg(gpu_exporter_sampling_cycle_duration_seconds{{{NODE}}})", "mean"),
                over_time(f"max(gpu_exporter_sampling_cycle_duration_seconds{{{NODE}}})", "slowest"),
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
                over_time(f"avg({of_exporters('scrape_duration_seconds')})", "mean"),
                over_time(f"max({of_exporters('scrape_duration_seconds')})", "slowest"),
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
                over_time(f"sum({of_exporters('scrape_samples_scraped')})", "all"),
                over_time(f"max({of_exporters('scrape_samples_scraped')})", "largest"),
            ],
            style.COUNT,
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
