"""Panels, digest and report on data of which the truth is known: a wrong number here is a lie on somebody's screen."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.tools.report import promql
from exporter.tools.report.client import Access, Client
from exporter.tools.report.definitions import (
    DEFINITIONS,
    GOOD,
    HIGH,
    Definition,
    Ledger,
    Totals,
    cost,
    cost_of_waste,
    hours_in,
    target_ratio,
    utilization,
)
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.job import ReportRequest, job_report
from tests.e2e.dashboards.known import NODES
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.truth import SPAN, rows, value_of
from tests.e2e.dashboards.tsdb import ask_at

pytestmark = pytest.mark.xdist_group("dashboards")

SERIES, ALL = "workload_state:gpu_workload_gpu_seconds:rate5m", 'cluster=~".+"'
PRICE = {"NVIDIA H100": 3.0, "NVIDIA A100": 1.8}
EDGES = 0.02
"""A gap begins and ends within a minute, and what is recorded of it by a minute."""
HOURS = (SPAN.end - SPAN.start) / 3600


def test_a_lost_gpu_has_no_utilization_and_lowers_nobodys(url: str) -> None:
    there = {"cluster": "one", "instance": "n1"}

    assert rows(url, "node", "Busy", "", **there) == {(): pytest.approx(1.0)}
    assert rows(url, "node", "GPU by GPU", "Busy", "gpu", **there) == {("1",): pytest.approx(1.0)}
    assert rows(url, "node", "GPU by GPU", "Reachable", "gpu", **there) == {("0",): 0.0, ("1",): 1.0}


def test_a_gpu_lost_before_the_exporter_started_is_one_that_does_not_answer(url: str) -> None:
    """A restarted driver gives its index to the next GPU, which answers; the last index is nobody's."""
    there = {"cluster": "one", "instance": "ports"}

    assert rows(url, "node", "GPUs", "", **there) == {(): 3}
    assert rows(url, "node", "Lost", "", **there) == {(): 2}
    assert rows(url, "node", "GPU by GPU", "Reachable", "gpu", **there) == {("0",): 1.0, ("1",): 0.0}
    assert rows(url, "health", "Lost", "", **there) == {(): 2}
    assert rows(url, "health", "Lost GPUs", "Last answer", "gpu", "uuid", **there) == {
        (index, f"GPU-one-ports-missing-{index}"): -1.0 for index in "01"
    }


def test_what_a_lost_gpu_counted_stands_still_and_is_no_zero(url: str) -> None:
    its, (here, lost) = "Its GPUs: which one the others wait for, which one is not used", ("n1", "0")
    job, gpu = {"cluster": "one", "workload": "slurm:4000"}, {"cluster": "one", "instance": here, "gpu": lost}

    assert rows(url, "workload-slurm", its, "SM active", "gpu", **job) == {("1",): pytest.approx(1.0)}
    for query in "AB":
        (traffic,) = Reader(url, SPAN, gpu).rows("gpu", "Traffic", query)
        values = {at - SPAN.start: float(value) for at, value in traffic["values"]}
        assert values[1500] == pytest.approx(1e9)
        assert max(values) == 1800


def test_alerts_over_time_tell_the_worst_severity(url: str) -> None:
    found = Reader(url, SPAN, {}).rows("health", "Alerts over time")
    last = {row["metric"]["alertname"]: float(row["values"][-1][1]) for row in found}

    assert (last["GpuLost"], last["GpuUnderutilized"]) == (2.0, 1.0)


def test_an_xid_counts_from_its_first(url: str) -> None:
    assert rows(url, "node", "GPU by GPU", "XIDs", "gpu", cluster="one", instance="n1") == {("0",): 1.0}


def test_a_node_born_in_the_range_is_not_half_used(url: str) -> None:
    free = rows(url, "waste", "Models", "Free", "model")

    assert free[("NVIDIA H100",)] == pytest.approx(HOURS + (3600 - 1200) / 3600, rel=0.06)  # twice's second GPU, late


def test_fleet_counts_every_gpu_once_and_holds_no_more_than_there_are(url: str) -> None:
    known = sum(len(node.gpus) + len(node.missing) for node in NODES)
    allocated = sum(allocated_to.share for node in NODES for gpu in node.gpus for allocated_to in gpu.allocated)

    assert rows(url, "fleet", "GPUs", "") == {(): known}
    assert rows(url, "fleet", "Lost", "") == {(): 3}
    assert rows(url, "fleet", "Allocated", "") == {(): pytest.approx(allocated / known)}


@pytest.mark.parametrize(("board", "panel"), [("fleet", "Namespaces"), ("waste", "Namespaces")])
def test_what_nobody_observed_has_no_utilization_and_no_waste(url: str, board: str, panel: str) -> None:
    for column in ("Utilization", "Wasted"):
        assert ("team-mig",) not in rows(url, board, panel, column, "workload_namespace")
    assert ("team-mig",) not in rows(url, "waste", "Namespaces", "Waste cost", "workload_namespace")
    assert rows(url, "waste", "Namespaces", "Allocated", "workload_namespace")[("team-mig",)] == pytest.approx(
        0.75 * HOURS, rel=0.04
    )


def test_who_had_a_gpu_and_ran_nothing_has_a_utilization_of_zero(url: str) -> None:
    used = rows(url, "waste", "Workloads that wasted most", "Utilization", "cluster", "workload")

    assert used[("two", "slurm:4000")] == 0.0
    assert used[("one", "twice/server")] == pytest.approx(0.5)


def test_a_gpu_whose_held_part_nobody_observed_is_not_idle_for_its_free_part(url: str) -> None:
    gpus = "Its GPUs: which one the others wait for, which one is not used"

    assert rows(url, "workload-kubernetes", gpus, "Busy", "instance", namespace="team-mig") == {}
    assert rows(url, "workload-kubernetes", gpus, "Busy", "instance", namespace="twice") == {
        ("twice",): pytest.approx(0.5)
    }


def test_a_part_of_a_gpu_has_its_part_of_the_price(url: str) -> None:
    (allocated,) = Reader(url, SPAN, {}).column("waste", "Cost of allocated", "")
    price = sum(PRICE[gpu.model] * each.share for node in NODES for gpu in node.gpus for each in gpu.allocated) * HOURS

    assert value_of(allocated) == pytest.approx(price, rel=0.06)  # a gap, and the first rates need two scrapes


@pytest.mark.parametrize("board", ["fleet", "waste"])
def test_utilization_is_judged_by_the_mark_of_its_class_of_work(url: str, board: str) -> None:
    """A namespace by the marks of its workloads, by what they hold: here one of batch work and one session."""
    said = rows(url, board, "Namespaces", "Target ratio", "workload_namespace")

    half, busy, service, session = (
        {"computing": 0.5, "wait_other": 0.5},
        {"computing": 1.0},
        GOOD["service"],
        GOOD["interactive"],
    )
    assert (
        said[("twice",)]
        == pytest.approx(target_ratio(half, "service"), rel=EDGES)
        == pytest.approx(0.5 / service, rel=EDGES)
    )
    assert said[("shared",)] == pytest.approx(1.0 / (HIGH + session), rel=EDGES)
    assert ("team-mig",) not in said
    jobs = rows(url, "waste", "Workloads that wasted most", "Target ratio", "workload")
    assert jobs[("slurm:7",)] == pytest.approx(target_ratio({"computing": 2 / 3, "wait_cpu": 1 / 3}), rel=EDGES)
    assert target_ratio(busy) == pytest.approx(1 / HIGH)
    assert target_ratio({"unobserved": 1.0}) is None


def test_owners_of_a_shared_gpu_are_told_apart(url: str) -> None:
    used = rows(url, "workload-kubernetes", "Workloads", "Utilization", "workload", namespace="shared", workload=".*")

    assert used == {("shared/left",): pytest.approx(1.0), ("shared/right",): pytest.approx(0.0)}


def test_jobs_of_two_clusters_with_one_id_are_two_rows(url: str) -> None:
    wasted = rows(url, "waste", "Workloads that wasted most", "Wasted", "cluster", "workload", "user")

    assert wasted[("two", "slurm:4000", "bob")] == pytest.approx(HOURS, rel=0.04)
    assert ("one", "slurm:4000", "ada") not in wasted


def test_an_exporter_that_is_scraped_twice_counts_once(url: str) -> None:
    allocated = rows(url, "waste", "Namespaces", "Allocated", "workload_namespace")

    assert allocated[("twice",)] == pytest.approx(HOURS, rel=0.04)
    assert rows(url, "exporter", "Doubled", "") == {(): 1.0}


@pytest.mark.parametrize(
    ("workload", "truth"),
    [("slurm:7", 2 / 3), ("slurm:9", (3 * 0.6 + 1) / 4), ("slurm:4000", 1.0)],  # restart and gap; four GPUs; one lost
)
def test_one_job_has_one_utilization_on_every_panel_in_the_digest_and_in_the_report(
    url: str, workload: str, truth: float
) -> None:
    one = {"cluster": "one", "workload": workload}
    client = Client(Access(url))
    report = job_report(client, ReportRequest(f'cluster="one", workload="{workload}"', workload, 3600.0), SPAN.end)
    (row,) = (
        row
        for row in digest(client, Group(cluster="one"), 3600.0, SPAN.end).tables["workload"]
        if row.labels["workload"] == workload
    )

    said = {
        "stat": rows(url, "workload-slurm", "Utilization", "", **one)[()],
        "table": rows(url, "workload-slurm", "Jobs", "Utilization", "workload", **one)[(workload,)],
        "waste": rows(url, "waste", "Workloads that wasted most", "Utilization", "workload", cluster="one").get(
            (workload,), truth
        ),
        "digest": row.utilization,
        "report": utilization(report.hours),
    }

    assert said == {name: pytest.approx(truth, abs=0.01) for name in said}


def hours_by_owner(url: str) -> dict[tuple[str, str], dict[str, float]]:
    """The ledger of every workload, as Python gets it."""
    hours: dict[tuple[str, str], dict[str, float]] = {}
    for row in ask_at(url, Ledger(SERIES, ALL, "cluster, workload, state", hours_in("1h")).of(), SPAN.end):
        labels = row["metric"]
        hours.setdefault((labels["cluster"], labels["workload"]), {})[labels["state"]] = value_of(row)
    return hours


def by_owner(url: str, expr: str) -> dict[tuple[str, str], float]:
    return {(row["metric"]["cluster"], row["metric"]["workload"]): value_of(row) for row in ask_at(url, expr, SPAN.end)}


def test_promql_and_python_price_alike(url: str) -> None:
    models = {
        (node.cluster, each.owner.workload): gpu.model for node in NODES for gpu in node.gpus for each in gpu.allocated
    }
    hours = hours_by_owner(url)

    allocated = by_owner(url, f"sum by (cluster, workload) ({promql.allocated_price(ALL, '1h')})")
    waste = by_owner(url, f"sum by (cluster, workload) ({promql.waste_price(ALL, '1h')})")

    assert allocated == {key: pytest.approx(cost(of, PRICE[models[key]]), rel=EDGES) for key, of in hours.items()}
    wasted = {key: cost_of_waste(of, PRICE[models[key]]) for key, of in hours.items()}
    assert waste == {key: pytest.approx(value, rel=EDGES) for key, value in wasted.items() if value is not None}
    assert ("one", "team-mig/notebook") not in waste


_BY_OWNER = ("cluster, workload", hours_in("1h"))


@pytest.mark.parametrize("of", [Totals("workload", ALL, *_BY_OWNER), Ledger(SERIES, ALL, *_BY_OWNER)], ids=type)
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: each.name)
def test_promql_and_python_say_the_same(url: str, definition: Definition, of: Totals | Ledger) -> None:
    hours = hours_by_owner(url)
    asked = by_owner(url, definition.promql(of))

    said = {key: definition.python(of) for key, of in hours.items()}
    assert len(said) == len(
        {(node.cluster, each.owner) for node in NODES for gpu in node.gpus for each in gpu.allocated}
    )
    assert asked == {key: pytest.approx(value, rel=EDGES) for key, value in said.items() if value is not None}
    assert ("one", "team-mig/notebook") in said


def test_the_ports_of_a_node_are_told_with_their_state_traffic_and_errors(url: str) -> None:
    reader = Reader(url, SPAN, {"cluster": "one", "instance": "ports"})

    def told(column: str) -> dict[tuple[str, ...], float]:
        return rows(url, "node", "Network ports", column, "device", cluster="one", instance="ports")

    def words(query: str, label: str) -> set[tuple[str, str]]:
        found = [row["metric"] for row in reader.rows("node", "Network ports", query)]
        return {(labels["device"], labels.get(label, "")) for labels in found}

    def of_each(*values: float) -> dict[tuple[str, ...], Any]:
        return {(f"mlx5_{number}",): pytest.approx(value, rel=0.01) for number, value in enumerate(values)}

    assert words("B", "state") == {("mlx5_0", "active"), ("mlx5_1", "active"), ("mlx5_2", "down")}
    assert words("C", "reason") == {("mlx5_1", "errors"), ("mlx5_2", "down")}
    assert words("E", "nearest_gpu") == {("mlx5_0", "0,1"), ("mlx5_1", "2,3"), ("mlx5_2", "")}
    assert told("Speed") == of_each(50e9, 50e9, 50e9)
    assert told("Receives") == of_each(2e9, 1e9, 0)
    assert told("Sends") == of_each(1e9, 0.5e9, 0)
    assert told("Errors in range") == of_each(0, 1800, 0)
    assert rows(url, "node", "Network port traffic", "", "device", "direction", cluster="one", instance="ports") == {
        ("mlx5_0", "receive"): pytest.approx(2e9),
        ("mlx5_0", "transmit"): pytest.approx(1e9),
        ("mlx5_1", "receive"): pytest.approx(1e9),
        ("mlx5_1", "transmit"): pytest.approx(0.5e9),
        ("mlx5_2", "receive"): 0.0,
        ("mlx5_2", "transmit"): 0.0,
    }
