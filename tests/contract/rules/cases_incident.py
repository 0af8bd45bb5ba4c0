"""Cases of the correlation of the nodes' alerts: one event is one message."""

from __future__ import annotations

from tests.contract.rules.case import Case, fires, silent
from tests.contract.rules.cases_fleet import in_maintenance, known, ups
from tests.contract.rules.series import by_two_exporters, twice


def critical(nodes: int, values: str, first: int = 1, cluster: str = "c1", more: str = "") -> dict[str, str]:
    """Critical alerts of so many nodes, one GPU each, as Prometheus writes them down, and that it evaluates rules."""
    return known("8x400", cluster) | {
        f'ALERTS{{alertname="GpuLost",alertstate="firing",severity="critical",audience="oncall",cluster="{cluster}",'
        f'node="n{n}",instance="n{n}:9836",gpu="3",uuid="GPU-{n}"{more}}}': values
        for n in range(first, first + nodes)
    }


def heat(nodes: int, values: str, alert: str = "GpuThermalThrottling") -> dict[str, str]:
    """Tickets about the GPUs of so many nodes of one rack, which page nobody by themselves."""
    found = critical(nodes, values)
    hot = {name.replace("GpuLost", alert).replace("critical", "warning"): values for name, values in found.items()}
    return hot | ups(nodes, "1x90", more=',rack="r7"')


def other_fault(nodes: int, values: str, first: int = 1) -> dict[str, str]:
    """A critical alert more on each of these nodes."""
    lost = critical(nodes, values, first)
    return {name.replace("GpuLost", "GpuRecoveryActionNeeded"): values for name in lost if name.startswith("ALERTS")}


def two_clusters(one: str, other: str) -> dict[str, str]:
    """Three nodes of each, of which Prometheus says at which site they are."""
    found: dict[str, str] = {}
    for cluster, site in (("c1", one), ("c2", other)):
        found |= critical(3, "_x30 1x60", cluster=cluster) | ups(3, "1x90", cluster=cluster, more=f',site="{site}"')
    return found


CASES: tuple[Case, ...] = (
    fires("GpuIncidentNode", "three nodes within minutes", "31m", critical(3, "_x30 1x60")),
    fires("GpuIncident", "forty nodes at once", "32m", critical(40, "_x30 1x60")),
    fires(
        "GpuIncident",
        "it lasts as long as the last of them",
        "200m",
        critical(3, "_x30 1x60") | critical(1, "_x30 1x300", 4),
    ),
    fires(
        "GpuIncident",
        "other nodes, hours later, while one of the first is not mended",
        "152m",
        critical(3, "_x30 1x60") | critical(1, "_x30 1x300", 4) | critical(3, "_x150 1x60", 10),
    ),
    fires(
        "GpuIncident",
        "the nodes of an incident hours ago, with another fault each",
        "152m",
        critical(3, "_x30 1x300") | other_fault(3, "_x150 1x60"),
    ),
    fires(
        "GpuIncident",
        "what spreads slowly is one incident",
        "132m",
        critical(3, "_x30 1x300")
        | critical(3, "_x80 1x300", 4)
        | critical(3, "_x130 1x300", 7)
        | other_fault(3, "_x60 1x300"),
    ),
    fires(
        "GpuIncident",
        "two clusters of one site are one message",
        "32m",
        two_clusters("a", "a"),
    ),
    fires(
        "GpuIncident",
        "the racks of the nodes are named",
        "32m",
        critical(4, "_x30 1x60") | ups(3, "1x90", more=',rack="r1"') | ups(1, "1x90", 4, more=',rack="r2"'),
    ),
    fires(
        "GpuIncident",
        "clusters of two sites are two messages",
        "32m",
        two_clusters("a", "b"),
    ),
    fires(
        "GpuIncident",
        "two alerts on each of the nodes",
        "32m",
        {
            name.replace("GpuLost", alert): values
            for alert in ("GpuLost", "GpuRecoveryActionNeeded")
            for name, values in critical(3, "_x30 1x60").items()
        },
    ),
    fires(
        "GpuIncident", "nodes that two jobs scrape", "32m", twice(critical(3, "_x30 1x60", more=',job="gpu-exporter"'))
    ),
    fires("GpuIncident", "the room gets hot: one page for the tickets of 24 nodes", "32m", heat(24, "_x30 1x60")),
    fires("GpuIncident", "the power brake of a rack", "32m", heat(4, "_x30 1x60", "GpuPowerBrake")),
    silent("GpuIncident", "one hot node", "32m 60m", heat(1, "_x30 1x60")),
    silent("GpuIncident", "nodes in maintenance", "32m 60m", critical(3, "_x30 1x60") | in_maintenance(3)),
    silent(
        "GpuIncidentNode",
        "old faults after Prometheus was away for eight minutes",
        "112m 113m 114m 115m 130m 145m",
        known("8x100 _x7 8x60")
        | {
            name: f"_x{10 * number} 1x{100 - 10 * number} _x7 1x60"
            for number in (1, 2, 3)
            for name in critical(1, "", number)
            if name.startswith("ALERTS")
        },
    ),
    silent(
        "GpuIncidentNode",
        "old faults where the rules are new, some of them after minutes",
        "2m 17m 21m 32m 37m 60m",
        {name: "_x5 1x80" if "n2" in name else "1x80" for name in critical(3, "") if name.startswith("ALERTS")}
        | known("8x90"),
    ),
    silent(
        "GpuIncidentNode",
        "another fault, hours later, on the node that is not mended",
        "152m 200m",
        critical(3, "_x30 1x60") | critical(1, "_x30 1x300", 4) | other_fault(1, "_x150 1x300", 4),
    ),
    silent("GpuIncidentNode", "two nodes", "31m", critical(2, "_x30 1x60")),
    silent("GpuIncidentNode", "two nodes with two exporters each", "31m", by_two_exporters(critical(2, "_x30 1x60"))),
    silent(
        "GpuIncidentNode",
        "three nodes hours apart",
        "200m",
        {
            **critical(1, "_x10 1x300"),
            **critical(1, "_x100 1x300", 2),
            **critical(1, "_x190 1x300", 3),
        },
    ),
    silent(
        "GpuIncidentNode",
        "three GPUs of one node",
        "31m",
        {
            name.replace("GPU-1", f"GPU-{gpu}"): values
            for gpu in range(3)
            for name, values in critical(1, "_x30 1x60").items()
        },
    ),
    silent("GpuIncident", "one node", "31m", critical(1, "_x30 1x60")),
)
