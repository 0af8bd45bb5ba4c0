"""A working day of a small simulated cluster: every planted fault is alerted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from exporter.tools.simulator.workload import job_of_run
from tests.replay.evaluate import Fired
from tests.replay.plan import DEVICE, HOUR, Plan, Planted, make
from tests.replay.ranks import SLOW, problems
from tests.replay.record import CompressedNode
from tests.replay.replay import START, judge, replay


@pytest.mark.xdist_group("alerting")
def test_every_planted_fault_is_alerted_and_nothing_else(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    verdict = replay(make(nodes=4, hours=7, rounds=1), tmp_path, interval=120)

    record_property("measured", verdict.text.splitlines()[0])
    assert (verdict.missed, verdict.false, verdict.broken) == ((), (), ()), verdict.text


THERMAL = DEVICE[0]
FAULT = Planted(THERMAL, "gpu01", 3, at=2 * HOUR)
ALERT = Fired("GpuThermalThrottling", {"node": "gpu01", "gpu": "3"}, 2.2 * HOUR, 3.1 * HOUR)
PLAN = Plan(("gpu01",), 9, (FAULT,))


def test_alert_at_the_place_and_time_of_the_fault_is_right() -> None:
    verdict = judge(PLAN, (ALERT,))

    assert (verdict.missed, verdict.false) == ((), ())


def test_fault_without_its_alert_is_missed() -> None:
    assert judge(PLAN, ()).missed == ((FAULT, frozenset({"GpuThermalThrottling"})),)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(ALERT, labels={"node": "gpu01", "gpu": "4"}),
        replace(ALERT, labels={"node": "gpu02", "gpu": "3"}),
        replace(ALERT, alert="GpuPowerBrake"),
        replace(ALERT, begin=0.5 * HOUR, end=1.9 * HOUR),
        replace(ALERT, begin=6 * HOUR, end=7 * HOUR),
    ],
)
def test_alert_elsewhere_or_at_another_time_is_false(wrong: Fired) -> None:
    assert judge(PLAN, (wrong,)).false == (wrong,)


def test_every_device_fault_has_a_gpu_of_its_own() -> None:
    plan = make(nodes=8, hours=168, rounds=3)
    places = [(each.node, each.gpu) for each in plan.planted if each.gpu is not None]

    assert len(places) == len(set(places)) == 3 * len(DEVICE)


STRAGGLER = Fired("GpuStraggler", {"workload": "slurm:4711"}, 1.2 * HOUR, 2 * HOUR)
HUNG = Fired("GpuWorkloadHung", {"workload": "slurm:4711"}, 2.8 * HOUR, 3.5 * HOUR)


@pytest.mark.parametrize(
    ("fired", "named", "wrong"),
    [
        ([STRAGGLER, HUNG], (SLOW, "0", "wait_storage"), 0),
        ([STRAGGLER, HUNG], (SLOW, "1", "wait_storage"), 1),
        ([STRAGGLER, HUNG], (SLOW, "0", "wait_cpu"), 1),
        ([STRAGGLER], (SLOW, "0", "wait_storage"), 1),
        ([replace(STRAGGLER, begin=0.5 * HOUR), HUNG], (SLOW, "0", "wait_storage"), 1),
        ([replace(STRAGGLER, alert="GpuLost"), HUNG], (SLOW, "0", "wait_storage"), 1),
    ],
)
def test_job_over_four_nodes_is_judged_by_who_is_named(
    fired: list[Fired], named: tuple[str, str, str], wrong: int
) -> None:
    assert len(list(problems(fired, {named}))) == wrong


def test_alert_about_a_later_run_of_the_job_that_held_the_gpu_comes_from_its_fault() -> None:
    plan = make(nodes=8, hours=168, rounds=3)
    storm = next(each for each in plan.planted if (each.kind.name, each.node, each.gpu) == ("ecc-storm", "gpu01", 4))

    run = int((storm.at - 300) // (10 * HOUR))
    own, later = ({"workload": f"slurm:{job_of_run(102, number)}"} for number in (run, run + 3))
    assert run > 0
    assert storm.explains("GpuXidApplication", own, storm.at, storm.at + 120)
    assert not storm.explains("GpuXidApplication", later, storm.at, storm.at + 120)


def test_gpu_that_hangs_has_no_memory_that_belongs_to_nobody(tmp_path: Path) -> None:
    """What it held is as of its last answer, and whoever held it may have gone."""
    scenario = tmp_path / "scenario.yaml"
    hang = {"kind": "hang", "node": "gpu01", "at": 300, "duration": 3600, "gpu": 0}
    plan = {**Plan(("gpu01",), 1, ()).scenario(START), "faults": [hang]}
    scenario.write_text(yaml.safe_dump(plan))
    node = CompressedNode(scenario, "gpu01", 120.0, {"gpu_memory_unattributed_bytes"})

    shown = [len(list(node.step(START + seconds))) for seconds in (0, 120, 240, 360, 480)]
    assert shown == [8, 8, 8, 7, 7]
