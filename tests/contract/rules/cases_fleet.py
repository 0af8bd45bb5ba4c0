"""Cases of the alerts about the fleet."""

from __future__ import annotations

from tests.contract.rules.case import DEV, OTHER, Case, fires, silent
from tests.contract.rules.cases_exporter import SECOND_NODE, node
from tests.contract.rules.series import gauge, twice


def ups(count: int, values: str, first: int = 1, cluster: str = "c1", more: str = "") -> dict[str, str]:
    """`up` of so many exporters, n<first> and on."""
    return {
        f'up{{cluster="{cluster}",job="gpu-exporter",node="n{n}",instance="n{n}:9836"{more}}}': values
        for n in range(first, first + count)
    }


def known(values: str, cluster: str = "c1") -> dict[str, str]:
    return {f'cluster:gpu_exporters:count{{cluster="{cluster}"}}': values}


def had(count: int, values: str, first: int = 1, cluster: str = "c1") -> dict[str, str]:
    """What is recorded of so many exporters while they answer."""
    return {
        f'node:gpu_exporter_copies:ratio{{cluster="{cluster}",node="n{n}",instance="n{n}:9836"}}': values
        for n in range(first, first + count)
    }


def in_kubernetes(count: int, values: str, first: int = 1, cluster: str = "c1") -> dict[str, str]:
    """Nodes as kube-state-metrics shows them, with one that has no GPUs."""
    return {
        f'kube_node_info{{cluster="{cluster}",job="kube-state-metrics",node="{node}"}}': of
        for node, of in (("cpu", "1x400"), *((f"n{n}", values) for n in range(first, first + count)))
    }


def away(count: int) -> dict[str, str]:
    return {
        f'instance:gpu_node_maintenance:last{{cluster="c1",node="n{n}",instance="n{n}:9836"}}': "1x40"
        for n in range(1, count + 1)
    }


def in_maintenance(count: int) -> dict[str, str]:
    """What Prometheus writes down of nodes that are in maintenance, by whatever says so."""
    return {
        'ALERTS{alertname="GpuNodeMaintenance",alertstate="firing",severity="info",audience="oncall",cluster="c1",'
        f'node="n{n}",instance="n{n}:9836"}}': "1x90"
        for n in range(1, count + 1)
    }


def of_second_job(series: dict[str, str], values: str) -> dict[str, str]:
    """The same targets of a second job alone."""
    return dict.fromkeys(twice(series).keys() - series.keys(), values)


def namesakes(count: int, values: str, first: int = 1) -> dict[str, str]:
    """Targets of another program on the same nodes, whose job is named alike."""
    return {
        f'up{{cluster="c1",node="n{n}",instance="n{n}:9835",job="nvidia-gpu-exporter"}}': values
        for n in range(first, first + count)
    }


_A, _B = ',site="a"', ',site="b"'

DOWN: tuple[Case, ...] = (
    fires("GpuExporterDown", "no answer", "20m", node("up", "1x10 0x20") | node("up", "1x30", where=SECOND_NODE)),
    silent("GpuExporterDown", "a missed scrape or two", "11m 13m 20m", node("up", "1x10 0x2 1x20")),
    silent(
        "GpuExporterDown", "another exporter's target", "20m", {'up{job="node-exporter",instance="n1:9100"}': "0x30"}
    ),
    silent("GpuExporterDown", "another job reaches it", "20m", ups(1, "1x30") | of_second_job(ups(1, ""), "0x30")),
    silent(
        "GpuExporterDown",
        "sixteen new nodes that are not up yet",
        "30m 45m",
        ups(4, "1x60")
        | ups(16, "_x10 0x50", 5)
        | {
            f'target:gpu_exporter:last{{cluster="c1",job="gpu-exporter",instance="n{n}:9836"}}': "_x10 0x50"
            for n in range(5, 21)
        },
    ),
    silent("GpuExporterDown", "the node was taken away", "25m", node("up", "1x10 _x20")),
    silent("GpuExporterDown", "another program whose job is named alike", "30m", namesakes(1, "1x10 0x50")),
    silent("GpuExportersDown", "and many of them", "30m", namesakes(30, "1x10 0x50") | ups(30, "1x60")),
    silent("GpuSampleStale", "and it comes and goes", "40m", namesakes(1, "1x2 0x2 " * 12)),
    fires("GpuTargetsGone", "but another program whose job is named alike", "30m", namesakes(3, "1x600")),
    fires("GpuTargetsGone", "no target at all", "30m", {'up{job="node-exporter",instance="n1:9100"}': "1x40"}),
    fires(
        "GpuTargetsGone",
        "they left discovery, and their nodes are in Kubernetes still",
        "150m",
        ups(4, "1x70 _x150") | had(4, "1x70 _x150") | in_kubernetes(4, "1x200") | known("4x70 _x150"),
    ),
    silent(
        "GpuTargetsGone",
        "an autoscaler took the last node with GPUs",
        "81m 100m 200m",
        ups(4, "1x70 _x150") | had(4, "1x70 _x150") | in_kubernetes(4, "1x72 _x150") | known("4x70 _x150"),
    ),
    silent(
        "GpuTargetsGone",
        "one target is left",
        "30m",
        node("up", "1x40") | node("up", "1x10 _x30", where=SECOND_NODE),
    ),
    silent("GpuTargetsGone", "targets that are down", "30m", node("up", "0x40")),
    fires(
        "GpuExportersDown",
        "a fifth of the cluster, with the racks",
        "20m",
        ups(8, "1x10 0x30", more=',rack="r1"')
        | ups(1, "1x10 0x30", 9, more=',rack="r2"')
        | ups(31, "1x40", 10, more=',rack="r2"'),
    ),
    fires("GpuExportersDown", "99 of 100", "20m", ups(99, "1x10 0x30") | ups(1, "1x40", 100)),
    fires(
        "GpuExportersDown",
        "a rack of a cluster that is otherwise well",
        "20m",
        ups(4, "1x10 0x30", more=',rack="r1"') | ups(40, "1x40", 5, more=',rack="r2"'),
    ),
    fires(
        "GpuExportersDown",
        "a site of two clusters, and each of them",
        "20m",
        ups(3, "1x10 0x30", more=_A)
        | ups(3, "1x10 0x30", cluster="c2", more=_A)
        | ups(9, "1x40", cluster="c3", more=_B),
    ),
    fires(
        "GpuExportersDown",
        "one cluster of a site is told by its name alone",
        "20m",
        ups(3, "1x10 0x30", more=_A) | ups(3, "1x40", cluster="c2", more=_A),
    ),
    fires(
        "GpuExportersDown",
        "new targets that do not come up",
        "45m",
        ups(70, "1x60") | ups(30, "_x20 0x40", 71),
    ),
    fires(
        "GpuExportersDown",
        "they went down while Prometheus was away",
        "36m",
        ups(70, "1x10 _x20 1x30") | ups(30, "1x10 _x20 0x30", 71),
    ),
    silent(
        "GpuExportersDown",
        "new targets that are not up for ten minutes",
        "25m 30m 40m",
        ups(70, "1x60") | ups(30, "_x20 0x10 1x30", 71),
    ),
    silent(
        "GpuExportersDown",
        "the first targets there are, not up for ten minutes",
        "25m 30m 40m",
        ups(70, "1x60", cluster="c2") | ups(30, "_x20 0x10 1x30"),
    ),
    silent("GpuExportersDown", "three of a hundred", "20m", ups(3, "1x10 0x30") | ups(97, "1x40", 4)),
    silent("GpuExportersDown", "both of two", "20m", ups(2, "1x10 0x30")),
    silent("GpuExportersDown", "nodes in maintenance", "20m", ups(30, "0x40") | ups(70, "1x40", 31) | away(30)),
    silent(
        "GpuExportersDown",
        "cordoned nodes that were switched off",
        "20m",
        ups(30, "0x40") | ups(70, "1x40", 31) | in_maintenance(30),
    ),
    silent(
        "GpuExportersDown",
        "both of two of eight that two jobs scrape",
        "20m",
        twice(ups(2, "0x40") | ups(6, "1x40", 3)),
    ),
    silent(
        "GpuExportersDown",
        "a job that reaches none of what another one reaches",
        "20m",
        ups(9, "1x40") | of_second_job(ups(9, ""), "0x40"),
    ),
    fires(
        "GpuTargetsGone",
        "50 of 100 leave discovery",
        "40m",
        ups(50, "1x60") | ups(50, "1x10 _x50", 51) | known("100x10 50x50") | had(50, "1x60") | had(50, "1x10 _x50", 51),
    ),
    fires(
        "GpuTargetsGone",
        "50 of 100 leave discovery, whose nodes are in Kubernetes still, and others were replaced before",
        "50m",
        ups(50, "1x60")
        | ups(50, "1x30 _x30", 51)
        | known("100x30 50x30")
        | had(50, "1x60")
        | had(50, "1x30 _x30", 51)
        | had(100, "1x10 _x50", 101)
        | in_kubernetes(100, "1x60")
        | in_kubernetes(100, "1x10 _x50", 101),
    ),
    fires(
        "GpuTargetsGone",
        "all, and another program whose job is named alike is still there",
        "40m",
        ups(8, "1x10 _x50") | known("8x10 _x50") | had(8, "1x10 _x50") | namesakes(8, "1x600"),
    ),
    silent(
        "GpuTargetsGone",
        "an autoscaler takes half of the nodes",
        "22m 40m 60m",
        ups(50, "1x60")
        | ups(50, "1x10 _x50", 51)
        | known("100x10 50x50")
        | had(50, "1x60")
        | had(50, "1x10 _x50", 51)
        | in_kubernetes(50, "1x60")
        | in_kubernetes(50, "1x12 _x50", 51),
    ),
    silent(
        "GpuTargetsGone",
        "an autoscaler takes all nodes of a cluster that have GPUs",
        "25m 40m 60m",
        ups(3, "1x60", cluster="c2")
        | ups(4, "1x10 _x50")
        | known("4x10 _x50")
        | known("3x60", "c2")
        | had(4, "1x10 _x50")
        | in_kubernetes(4, "1x12 _x50"),
    ),
    silent(
        "GpuTargetsGone",
        "targets that get other names",
        "40m",
        {name.replace(":9836", ""): values for name, values in (ups(4, "_x10 1x50") | had(4, "_x10 1x50")).items()}
        | ups(4, "1x10 _x50")
        | had(4, "1x10 _x50")
        | known("4x60"),
    ),
    fires(
        "GpuTargetsGone",
        "one of two clusters goes",
        "40m",
        ups(3, "1x60")
        | ups(3, "1x10 _x50", cluster="c2")
        | known("3x60")
        | known("3x10 _x50", "c2")
        | had(3, "1x60")
        | had(3, "1x10 _x50", cluster="c2"),
    ),
    silent(
        "GpuTargetsGone",
        "the second of two scrape jobs was taken away",
        "40m",
        ups(4, "1x60") | of_second_job(ups(4, ""), "1x10 _x50") | known("4x60"),
    ),
    silent("GpuTargetsGone", "exporters that are down", "40m", ups(4, "1x10 0x50") | known("4x10 _x50")),
    silent("GpuTargetsGone", "one of ten", "40m", ups(9, "1x60") | ups(1, "1x10 _x50", 10) | known("10x10 9x50")),
    fires("GpuSampleStale", "every second scrape for two hours", "110m", node("up", " ".join(["1", "0"] * 60))),
    fires("GpuSampleStale", "three restarts", "28m", node("up", "1x10 0x2 1x1 0x2 1x1 0x2 1x30")),
    silent("GpuSampleStale", "two restarts", "30m 45m", node("up", "1x10 0x2 1x10 0x2 1x30")),
    silent("GpuSampleStale", "down", "30m", node("up", "1x10 0x40")),
    fires("GpuDeviceDuplicated", "two scrape jobs", "40m", twice(gauge("gpu_up", "1x60"))),
    fires(
        "GpuDeviceDuplicated",
        "two replicas of Prometheus",
        "40m",
        gauge("gpu_up", "1x60") | gauge("gpu_up", "1x60", more=',replica="b"'),
    ),
    silent("GpuDeviceDuplicated", "two GPUs", "40m", gauge("gpu_up", "1x60") | gauge("gpu_up", "1x60", OTHER)),
    silent(
        "GpuDeviceDuplicated",
        "a pod that is replaced",
        "12m 40m",
        gauge("gpu_up", "1x12 _x50") | gauge("gpu_up", "_x10 1x50", DEV.replace("n1:9836", "10.0.0.9:9836")),
    ),
    fires("GpuWatchdog", "always", "1m", node("up", "1x5")),
)

CASES = DOWN
