"""The text after --simulate: what it means, and that a wrong one is refused in one line."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.tools.simulator.models import MODELS
from exporter.tools.simulator.patterns import KINDS, PATTERNS
from exporter.tools.simulator.scenario import Scenario
from exporter.tools.simulator.spec import parse
from exporter.tools.simulator.workload import Place


def patterns_by_gpu(scenario: Scenario) -> list[str]:
    """What each GPU does, `free` where nobody holds it."""
    allocated = {place.gpu: each.pattern.name for each in scenario.workloads for place in each.places}
    return [allocated.get(gpu, "free") for gpu in range(len(scenario.gpus))]


def test_counts_patterns_and_options() -> None:
    scenario = parse(
        "8xH200:4*training,input-bound,thermal,allocated-idle,free;seed=3;driver=535.104.05;node=n7;start=1000"
    )

    assert [plan.model.key for plan in scenario.gpus] == ["H200"] * 8
    assert patterns_by_gpu(scenario) == [*["training"] * 4, "input-bound", "thermal", "allocated-idle", "free"]
    assert [len(each.places) for each in scenario.workloads] == [4, 1, 1, 1]
    assert [(fault.kind.name, fault.gpu) for fault in scenario.faults] == [("thermal", 5)]
    assert (scenario.seed, scenario.driver, scenario.node, scenario.start) == (3, "535.104.05", "n7", 1000.0)


def test_one_pattern_without_count_is_one_workload_on_all_gpus() -> None:
    assert [len(each.places) for each in parse("8xH200:straggler").workloads] == [8]


def test_a_short_list_is_repeated() -> None:
    assert patterns_by_gpu(parse("5xA10:training,free")) == ["training", "free", "training", "free", "training"]


def test_no_pattern_is_a_mix() -> None:
    names = patterns_by_gpu(parse("8xH200"))

    assert [name for name, _ in groupby(names)] == ["training", "inference", "input-bound", "idle-loaded", "free"]


def test_several_models_on_one_node() -> None:
    scenario = parse("2xh100:training+1xL40S:inference")

    assert [plan.model.key for plan in scenario.gpus] == ["H100", "H100", "L40S"]
    assert patterns_by_gpu(scenario) == ["training", "training", "inference"]


def test_mig_patterns_go_to_instances_each_its_own_workload() -> None:
    scenario = parse("2xA100-mig:training")

    assert [plan.slots for plan in scenario.gpus] == [(0, 1, 2)] * 2
    assert [each.places for each in scenario.workloads] == [(Place(gpu, slot),) for gpu in (0, 1) for slot in (0, 1, 2)]


def test_a_fault_has_its_time_and_length() -> None:
    first, second = parse("2xT4;fault=lost:1@600;fault=thermal:all@60.5+30").faults

    assert (first.kind.name, first.gpu, first.at, first.end) == ("lost", 1, 600.0, float("inf"))
    assert (second.kind.name, second.gpu, second.at, second.end) == ("thermal", None, 60.5, 90.5)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", "names no GPUs; expected COUNTxMODEL"),
        ("8xH300", "expected COUNTxMODEL, MODEL one of B200, H200"),
        ("0xH200", "expected 1 to 64"),
        ("40xH200+40xA10", "80 GPUs; expected at most 64"),
        ("4xT4-mig", "T4 has no MIG; expected -mig with one of B200, H200, H100, A100"),
        ("8xH200:walking", "pattern 'walking'; expected [COUNT*]NAME, NAME one of training"),
        ("8xH200:9*training", "is for 9 GPUs; expected patterns for at most 8"),
        ("8xH200:0*training", "pattern '0*training'; expected"),
        ("8xH200;speed=9", "option 'speed=9'; expected one of seed, driver"),
        ("8xH200;seed=x", "seed=x; expected a whole number"),
        ("8xH200;duty=1.5", "duty=1.5; expected a number from 0 to 1"),
        ("8xH200;period=nan", "period=nan; expected a number"),
        ("8xH200;driver=new", "driver=new; expected a version such as"),
        ("8xH200;scheduler=cron", "expected one of kubernetes, slurm, mixed"),
        ("8xH200;fault=fire:0@1", "expected KIND:GPU@SECONDS[+SECONDS] with KIND one of thermal"),
        ("8xH200;fault=lost:8@1", "fault on GPU 8; expected 0 to 7"),
        ("@/nowhere/at-all.yaml", "No such file or directory; expected a readable YAML file"),
    ],
)
def test_a_wrong_one_is_refused_in_one_line(spec: str, expected: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        parse(spec)

    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


_WORDS = st.sampled_from(
    [*MODELS, *PATTERNS, *KINDS, "8", "x", "*", ":", ",", ";", "+", "@", "=", "-mig", "seed", "fault", "0"]
)


@given(st.one_of(st.text(max_size=60), st.lists(_WORDS, max_size=9).map("".join)))
def test_any_text_is_understood_or_refused_with_value_error(text: str) -> None:
    try:
        scenario = parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either outcome is right; what is not is another exception
    else:
        assert scenario.gpus


@pytest.mark.parametrize("scheduler", ["slurm", "kubernetes"])
def test_nodes_of_one_cluster_never_run_the_same_job(scheduler: str) -> None:
    """With the same text and seed on every node, as a fleet is simulated; a report of one job had four kinds of GPU."""
    names = [
        each.owner(run).workload
        for node in range(32)
        for each in parse(f"8xH200:training;churn=3600;scheduler={scheduler};node=gpu-{node:02d}").workloads
        for run in range(3)
    ]

    assert len(set(names)) == len(names)


def test_the_node_without_a_name_keeps_its_first_job() -> None:
    (job,) = parse("8xH200:8*training;scheduler=slurm").workloads

    assert job.owner(0).workload == "slurm:4000"
