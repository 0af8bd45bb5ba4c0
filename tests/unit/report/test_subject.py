"""What a name given to the report means: workloads, pods, and every way in which Slurm's users write a job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.config.load import load
from exporter.tools.report.client import Access, Client, NoDataError, NoMetricsError, ReportError, Sample
from exporter.tools.report.command import _requested_subject
from exporter.tools.report.options import ReportConfig
from exporter.tools.report.subject import Selected, named, selected
from tests.unit.report.scripted import Scripted

INFO: Sequence[Mapping[str, str]] = (
    *({"slurm_job": str(raw), "slurm_array_job": "12", "slurm_array_task": str(raw - 12)} for raw in (12, 13, 14, 15)),
    {"slurm_job": "20", "slurm_het_job": "20", "slurm_het_offset": "0"},
    {"slurm_job": "21", "slurm_het_job": "20", "slurm_het_offset": "1"},
    {"slurm_job": "30"},
    {"workload": "ml/llm", "workload_namespace": "ml", "workload_pod": "llm-worker-0"},
    {"workload": "ml/Deployment/chat.v2", "workload_namespace": "ml", "workload_pod": "chat.v2-5d4-x"},
    {"workload": "ml/Job/chat.v2", "workload_namespace": "ml", "workload_pod": "chat.v2-y"},
)
_PAIR = re.compile(r'(\w+)=(~?)"([^"]*)"')


class Prometheus(Client):
    """Knows what INFO tells, and nothing else."""

    def __init__(self) -> None:
        super().__init__(Access("http://127.0.0.1:1"))

    def instant(self, expr: str, time: float) -> Sequence[Sample]:
        del time
        wanted = _PAIR.findall(expr)

        def matches(told: str, pattern: str, value: str) -> bool:
            return bool(re.fullmatch(value.replace("\\\\", "\\"), told)) if pattern else told == value

        return [
            Sample(row, 1.0)
            for row in INFO
            if all(matches(row.get(name, ""), pattern, value) for name, pattern, value in wanted)
        ]


def meaning(name: str) -> Selected | None:
    found = named(name)
    assert found
    return selected(Prometheus(), found, "", "7d", 0.0)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("30", Selected("Slurm job 30", 'slurm_job="30"', "30")),
        ("99", Selected("Slurm job 99", 'slurm_job="99"', "99")),
        ("12", Selected("Slurm job 12: all of its 4 jobs", 'slurm_job=~"12|13|14|15"')),
        ("12_3", Selected("Slurm job 12_3", 'slurm_job="15"', "12_3")),
        ("20", Selected("Slurm job 20: all of its 2 jobs", 'slurm_job=~"20|21"')),
        ("20+1", Selected("Slurm job 20+1", 'slurm_job="21"', "20+1")),
        ("30.batch", Selected("Slurm job 30 (step batch is a part of it)", 'slurm_job="30"', "30")),
        ("12_1.0", Selected("Slurm job 12_1 (step 0 is a part of it)", 'slurm_job="13"', "12_1")),
        ("12_9", None),
        ("ml/llm", Selected("Workload ml/llm", 'workload="ml/llm"')),
        (
            "ml/llm-worker-0",
            Selected("Workload ml/llm-worker-0", 'workload_namespace="ml", workload_pod="llm-worker-0"'),
        ),
        ("ml/nobody", Selected("Workload ml/nobody", 'workload="ml/nobody"')),
        ("ml/Job/chat.v2", Selected("Workload ml/Job/chat.v2", 'workload="ml/Job/chat.v2"')),
        ("ml/chat.v2", Selected("Workload ml/chat.v2", r'workload=~"ml/[A-Za-z]+/chat\\.v2"')),
        ("docker:web", Selected("docker:web", 'workload="docker:web"')),
    ],
)
def test_meaning(name: str, expected: Selected | None) -> None:
    assert meaning(name) == expected


def test_cluster_narrows_every_question() -> None:
    found = named("30")
    assert found

    assert selected(Prometheus(), found, 'cluster="a"', "7d", 0.0) == Selected(
        "Slurm job 30", 'slurm_job="30", cluster="a"', "30"
    )


@pytest.mark.parametrize("name", ["12x", "12_", "+1", "a/b/c/d", "a//c", "/a", "a/", "", "12_3_4", ":a"])
def test_other_names_are_refused(name: str) -> None:
    assert named(name) is None


@pytest.mark.parametrize("name", ["4711", "4711_3"])
@pytest.mark.parametrize(("since", "last"), [("3h", "3 h"), ("36h", "1.5 d"), ("7d", "7 d")])
def test_name_without_data_is_said_to_have_none_in_the_time_that_was_asked_for(
    since: str, last: str, name: str
) -> None:
    subject = _requested_subject(replace(load(ReportConfig, ("--since", since), {}), name=name))

    with pytest.raises(NoDataError, match=f"^no data about .*{name}.* in the last {last}: "):
        subject(Scripted({"gpu_exporter_build_info": "{} 1"}), 1e9)
    with pytest.raises(NoMetricsError):
        subject(Scripted({}), 1e9)


@pytest.mark.parametrize("level", ["user", "account", "namespace"])
def test_digest_asks_for_the_one_that_the_option_names(level: str) -> None:
    client = Scripted({"gpu_exporter_build_info": "{} 1"})
    subject = _requested_subject(load(ReportConfig, (f"--{level}", "ada"), {}))
    with contextlib.suppress(ReportError):
        subject(client, 1e9)

    assert '="ada"' in "".join(client.asked)
