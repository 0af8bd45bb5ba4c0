"""Runs of one name, as Prometheus is asked for them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.tools.report.client import Sample
from exporter.tools.report.model import Runs
from exporter.tools.report.progress import runs
from tests.unit.report.answers import JOB, NOW
from tests.unit.report.scripted import Scripted, samples

INFO = samples(JOB["gpu_workload_info"])


def found(answers: Mapping[str, str]) -> Runs:
    made = runs(Scripted(answers), INFO, "1h", NOW)
    assert made is not None
    return made


def test_row_without_a_workload_is_no_run() -> None:
    key = r"^topk\(50"

    assert found({**JOB, key: JOB[key] + "{} 1699000000"}) == found(JOB)
    assert [run.workload for run in found(JOB).runs] == ["slurm:4600", "slurm:4650", "slurm:4711"]


@pytest.mark.parametrize(
    ("labels", "asked"),
    [
        ({"job_name": "llm", "user": "ada"}, 'job_name="llm", user="ada"'),
        ({"job_name": "llm", "cluster": "north"}, 'cluster="north", job_name="llm", user=""'),
        ({"part_of": "ml/sweep", "workload_namespace": "ml"}, 'part_of="ml/sweep", workload_namespace="ml"'),
    ],
)
def test_runs_are_those_of_the_same_name_and_user_or_of_the_same_whole(labels: Mapping[str, str], asked: str) -> None:
    prometheus = Scripted({})
    runs(prometheus, [Sample({"workload": "ml/train-7", **labels}, 1.0)], "1h", NOW)

    assert f"{{{asked}}}" in prometheus.asked[0]


def test_what_has_no_name_of_its_own_has_no_runs() -> None:
    prometheus = Scripted({})

    assert runs(prometheus, [Sample({"workload": "process:python3"}, 1.0)], "1h", NOW) is None
    assert prometheus.asked == []


def test_run_whose_gpu_time_is_not_known_is_compared_with_none() -> None:
    keys = (r"by \(workload\).*gpu_workload_tokens_total", r"by \(workload\).*gpu_workload_allocated_gpus\{")
    more = {key: JOB[key] + '{workload="slurm:4500"} 5' for key in keys}

    assert found({**JOB, **more}) == found(JOB)
