"""Every panel of every dashboard, asked of a real Prometheus that holds 80 minutes of a simulated cluster.

32 nodes, half of them under Kubernetes and half under Slurm, with the faults and the waste that `nodes` plants.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.dashboards.reading import NAMES
from tests.e2e.dashboards.history import Span, write_history
from tests.e2e.dashboards.nodes import nodes
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.tsdb import Archive

pytestmark = pytest.mark.xdist_group("dashboards")

END = 1_789_999_200 - 120
"""Some afternoon, so that the history lies within one block of two hours."""
SPAN = Span(END - 80 * 60, END, 120)
HOT = {"instance": "k8s-05", "gpu": "1"}
"""The GPU that the node and GPU dashboards are opened on: the one that is too hot."""

EMPTY = {
    # dashboard, panel, and why this cluster gives it nothing to show
    ("gpu", "Fans"),  # H100s have none of their own
    ("gpu", "XIDs in the range"),  # a hot GPU logs none
    ("gpu", "MIG instances"),  # MIG is off on it
    ("gpu", "Link errors"),  # its links are well
    ("health", "Unreachable nodes"),  # every node is scraped
    ("waste", "Price of the waste"),  # no price is configured
    ("workload-slurm", "Price of the waste"),
    ("showback", "Budget spent"),  # nor a budget
    ("showback", "Budget at the end of the month"),
    *(
        ("capacity", panel)  # nothing waits, and no kube-state-metrics tells of pods
        for panel in ("Answer", "Waiting GPUs", "Waiting time", "Requested sizes", "GPUs that work waited for")
    ),
    ("capacity", "Demand in 30 days"),  # an hour is no trend
    ("job", "Cost so far"),
    ("job", "Progress"),  # the job it opens on does not report
    ("job", "By node"),  # runs on one node
    ("job", "By GPU"),  # and on two GPUs, which the ranks above are
    ("throughput", "Tokens per GPU second"),  # nobody runs a serving engine
    ("throughput", "Tokens per joule"),
    ("throughput", "Tokens per unit of currency"),
    ("throughput", "Time to the first token, slowest engine"),
    ("throughput", "Time between tokens, slowest engine"),
    ("throughput", "Tokens per second"),
    ("throughput", "GPUs of the engines by state"),
    ("throughput", "SM active"),
    ("throughput", "Requests in work and in the queue"),
}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gpu-dashboards-") as folder:
        archive = Archive(Path(folder), SPAN)
        archive.add(write_history(nodes(), SPAN, archive.folder))
        archive.evaluate()
        with archive.served() as found:
            yield found


@pytest.fixture(scope="module")
def reader(url: str) -> Reader:
    return Reader(url, SPAN, {})


@pytest.mark.parametrize("name", NAMES)
def test_no_query_fails_and_no_panel_is_empty_without_saying_why(url: str, name: str) -> None:
    reader = Reader(url, SPAN, HOT if name in {"node", "gpu"} else {})

    answers = list(reader.answers(name))

    empty = [answer for answer in answers if not answer.series]
    assert {(name, answer.panel) for answer in empty} == {each for each in EMPTY if each[0] == name}
    assert all(answer.says_why for answer in empty)


def test_health_names_the_lost_and_the_hot_gpu(reader: Reader) -> None:
    found = {
        (row["metric"].get("alertname"), row["metric"].get("instance"), row["metric"].get("gpu"))
        for row in reader.rows("health", "Alerts, one by one")
    }

    assert {("GpuLost", "k8s-14", "2"), ("GpuThermalThrottling", "k8s-05", "1")} <= found


def test_a_job_has_the_alerts_of_its_gpus(reader: Reader) -> None:
    found = {(row["metric"]["alertname"], row["metric"]["gpu"]) for row in reader.rows("job", "Alerts, one by one")}

    assert ("GpuThermalThrottling", "1") in found  # it opens on the one on k8s-05


def test_alerts_name_the_node_or_the_workload_they_fire_for(reader: Reader) -> None:
    first = {row["metric"]["alertname"]: row["metric"]["thing"] for row in reader.rows("fleet", "Alerts", "C")}

    assert first["GpuLost"] == "k8s-14"
    assert first["GpuAllocatedIdle"].startswith("research/StatefulSet/allocated-idle")


@pytest.mark.parametrize(
    ("panel", "pattern", "state"),
    [("Pods that waste most", "input-bound", "wait_cpu"), ("Slurm jobs that waste most", "slurm:", "wait_storage")],
)
def test_fleet_shows_the_most_wasteful_workload_first_and_why(
    reader: Reader, panel: str, pattern: str, state: str
) -> None:
    waste = reader.rows("fleet", panel)
    worst = max(waste, key=lambda row: float(row["value"][1]))["metric"]["workload"]
    causes = {row["metric"]["workload"]: row["metric"]["state"] for row in reader.rows("fleet", panel, "G")}

    assert pattern in worst
    assert causes[worst] == state


def test_node_shows_one_row_per_gpu_and_the_lost_one_among_them(url: str) -> None:
    rows = Reader(url, SPAN, {"instance": "k8s-14"}).rows("node", "GPU by GPU")

    assert {row["metric"]["gpu"]: row["value"][1] for row in rows} == {"0": "1", "1": "1", "2": "0", "3": "1"}


def test_health_counts_each_planted_xid_once_and_begins_with_the_hardware(reader: Reader) -> None:
    found = {
        (row["metric"]["class"], row["metric"]["instance"], row["metric"]["gpu"], row["metric"]["xid"]): row["value"][1]
        for row in reader.rows("health", "XIDs in the time range")
    }

    assert sorted(found.items()) == [
        (("1 reset_when_idle", "k8s-10", "1", "94"), "1"),
        (("1 restart_bm", "k8s-14", "2", "79"), "1"),
        (("1 workflow", "hpc-14", "0", "74"), "1"),
        (("2 restart_app", "hpc-10", "1", "31"), "1"),
    ]


@pytest.mark.parametrize(
    ("panel", "ref", "instance", "gpu"),
    [
        ("XIDs in the time range", "A", "k8s-14", "2"),
        ("GPU memory errors", "A", "k8s-10", "1"),
        ("NVLink", "A", "hpc-14", "0"),
        ("PCIe", "A", "hpc-12", "0"),
        ("Lost GPUs", "A", "k8s-14", "2"),
        ("Recovery the driver asks for", "A", "k8s-10", "1"),
    ],
)
def test_health_lists_what_was_planted(reader: Reader, panel: str, ref: str, instance: str, gpu: str) -> None:
    found = {(row["metric"]["instance"], row["metric"]["gpu"]) for row in reader.rows("health", panel, ref)}

    assert (instance, gpu) in found
