"""What the panels of one job say of its ranks and of its alerts, on data of which the truth is known."""

from __future__ import annotations

import pytest

from exporter.ledger.states import TABLE
from tests.e2e.dashboards.reader import Reader
from tests.e2e.dashboards.truth import SPAN, rows

STATES = [state.name for state in TABLE]

pytestmark = pytest.mark.xdist_group("dashboards")


@pytest.mark.parametrize("board", ["job", "workload-slurm"])
def test_alerts_of_a_job_are_also_those_of_its_gpus_and_nodes(url: str, board: str) -> None:
    def fire(workload: str) -> set[tuple[str, ...]]:
        one = {"cluster": "one", "workload": workload}
        return set(rows(url, board, "Alerts, one by one", "Active for", "alertname", "instance", "gpu", **one))

    assert fire("slurm:4000") == {("GpuLost", "n1", "0")}
    assert fire("slurm:14") == {("GpuNetworkPortDegraded", "wide-2", "")}
    assert fire("slurm:7") == set()


def test_the_gpu_the_others_wait_for_is_the_one_row_that_says_so(url: str) -> None:
    lead = rows(
        url, "workload-slurm", "Its GPUs: which one the others wait for, which one is not used", "Others wait",
        "instance", "gpu", workload="slurm:9",
    )  # fmt: skip

    assert lead == {("slow", "3"): pytest.approx(0.4)}


def test_a_third_of_waiting_is_told_although_more_was_busy(url: str) -> None:
    found = Reader(url, SPAN, {"workload": "slurm:7"}).column("workload-slurm", "What limited each one", "")

    assert {int(float(value)) for row in found for _, value in row["values"]} == {STATES.index("wait_cpu")}


def test_ranks_that_wait_for_another_say_so_although_they_were_busy_for_longer(url: str) -> None:
    reader = Reader(url, SPAN, {"workload": "slurm:14"})
    waits, busy = str(STATES.index("wait_peer")), str(STATES.index("computing"))

    for panel, count in (("The ranks that the others wait for, over time", 12), ("By GPU", 14)):
        said = {
            (row["metric"]["instance"], row["metric"]["gpu"]): row["values"][-1][1] for row in reader.rows("job", panel)
        }
        assert len(said) == count
        assert {rank for rank, state in said.items() if state == busy} == {("wide-2", "6")}
        assert set(said.values()) == {waits, busy}
    nodes = {row["metric"]["instance"]: row["values"][-1][1] for row in reader.rows("job", "By node")}
    assert nodes == {"wide-1": waits, "wide-2": waits}


def test_who_waits_for_others_is_none_that_they_wait_for(url: str) -> None:
    now, job = "The ranks that the others wait for now", {"workload": "slurm:9"}

    lead = rows(url, "job", now, "Waits less by", "gpu", **job)
    assert lead == {("3",): pytest.approx(0.3)}
    (state,) = Reader(url, SPAN, job).rows("job", now, "B")
    assert (state["metric"]["gpu"], state["metric"]["state"]) == ("3", "computing")
    alike = rows(url, "job", now, "Waits less by", "gpu", cluster="one", workload="slurm:4000")
    assert alike == {("0",): 0.0, ("1",): 0.0}


def test_few_rows_do_not_fill_the_panels_for_many(url: str) -> None:
    reader = Reader(url, SPAN, {"workload": "slurm:9"})

    assert len(reader.rows("job", "The ranks that the others wait for, over time")) == 4
    assert reader.rows("job", "By node") == reader.rows("job", "By GPU") == []
