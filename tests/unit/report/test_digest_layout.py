"""The digest's tables: what nobody reports takes no column, and a bound is called one."""

from __future__ import annotations

import pytest

from exporter.tools.report import formats, layout, terminal
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.model import Digest, Row
from exporter.tools.report.terminal import Colors
from tests.unit.report.scripted import Scripted


def said(**more: float) -> str:
    row = Row({"user": "ada"}, 10.0, 2.0, 0.8, 6.0, "wait_cpu", **more)
    found = Digest("everybody", 0.0, 3600.0, 10.0, 2.0, {"user": (row,)}, {}, ())
    return terminal.render(layout.digest_document(found, "$"), Colors(colours=False))


@pytest.mark.parametrize(
    ("more", "head", "cell"),
    [
        ({"model_flops_utilization": 0.41}, "Utilization   MFU  Wasted", "80 %  41 %"),
        ({"model_flops_utilization_bound": 0.62}, "Utilization  MFU bound  Wasted", "80 %       62 %"),
    ],
)
def test_model_flops_stand_beside_utilization(more: dict[str, float], head: str, cell: str) -> None:
    text = said(**more)

    assert head in text
    assert cell in text


def test_what_nobody_reports_has_no_column() -> None:
    assert "MFU" not in said()


def test_states_that_took_little_of_what_was_held_are_no_advice() -> None:
    """Two percent of the wasted hours had been enough: a minute of a GPU that worked for a day."""
    key = 'cluster="n",workload="slurm:8",user="bob",workload_namespace="",account=""'
    answers = {
        r"^sum by \(cluster, workload.*gpu_workload_allocated": f"{{{key}}} 100",
        r"^sum by \(state\)": '{state="wait_cpu"} 1.9\n{state="wait_storage"} 2.1',
    }
    found = digest(Scripted(answers), Group("user", "bob"), 3600.0, 1e9)

    assert [each.state for each in found.advice] == ["wait_storage"]


def test_digest_of_what_nobody_observed_has_no_waste_and_no_verdict() -> None:
    """A row of it had a dash, and the sum above it 0 %."""
    key = 'cluster="n",workload="slurm:8",user="bob",workload_namespace="",account=""'
    allocated = {r"^sum by \(cluster, workload.*gpu_workload_allocated": f"{{{key}}} 5"}
    found = digest(Scripted(allocated), Group("user", "bob"), 3600.0, 1e9)
    text = terminal.render(layout.digest_document(found, "$"), Colors(colours=False))

    assert found.wasted is None
    assert "Wasted     nothing of it was observed" in text
    assert "no state took more" not in text
    assert formats.short(found) == "GPU: allocated 5.0 h; wasted -; data for an unknown part of 1 h\n"


def test_digest_says_for_how_much_of_the_period_there_is_data() -> None:
    key = 'cluster="n",workload="slurm:8",user="bob",workload_namespace="",account=""'
    answers = {
        r"^sum by \(cluster, workload.*gpu_workload_allocated": f"{{{key}}} 5",
        r"^max\(count_over_time\(cluster:gpu_exporters:count": "{} 1020",
    }
    found = digest(Scripted(answers), Group("user", "bob"), 30 * 86400.0, 1e9)

    assert "data for 17 min of 30 d" in terminal.render(layout.digest_document(found, "$"), Colors(colours=False))


@pytest.mark.parametrize(("difference", "line"), [("0.034", "Accounts differ  3 % of GPU time"), ("0", "")])
def test_difference_of_the_accounts_is_a_line_of_everybodys_digest(difference: str, line: str) -> None:
    key = 'cluster="n",workload="slurm:8",user="bob",workload_namespace="",account=""'
    answers = {
        r"^sum by \(cluster, workload.*gpu_workload_allocated": f"{{{key}}} 5",
        "gpu_accounting_scheduler_difference_ratio": f"{{}} {difference}",
    }
    found = digest(Scripted(answers), Group(), 3600.0, 1e9)
    text = terminal.render(layout.digest_document(found, "$"), Colors(colours=False))

    assert line in text
    assert ("Accounts differ" in text) == bool(line)


@pytest.mark.parametrize(
    ("wasted", "causes", "advice"),
    [
        (2.0, {}, "Unknown: no state of it was recorded."),  # the rules of states are younger than those of owners
        (0.0, {}, "Nothing: no state took more than 2 %"),
        (0.1, {"wait_cpu": 0.1}, "Nothing: no state took more than 2 %"),
        (None, {}, "Unknown: no state of it was recorded."),
    ],
)
def test_digest_without_recorded_causes_does_not_say_nothing_to_change(
    wasted: float | None, causes: dict[str, float], advice: str
) -> None:
    found = Digest("everybody", 0.0, 3600.0, 10.0, wasted, {}, causes, ())

    assert advice in terminal.render(layout.digest_document(found, "$"), Colors(colours=False))
