"""Reports from the first query to the last line, word for word, over a Prometheus that answers from a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from exporter.tools.report import formats, layout, promql, terminal
from exporter.tools.report.client import NoDataError, NoMetricsError, ReportError, SeveralError
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.job import ReportRequest, job_report, slurm_job
from exporter.tools.report.model import Digest, JobReport
from exporter.tools.report.terminal import Colors
from tests.golden import compare
from tests.unit.report.answers import BEGAN, ENDED, JOB, NOW, WEEK
from tests.unit.report.scripted import Scripted

GOLDEN = Path(__file__).parent / "golden"
FORMS: Mapping[str, Callable[[JobReport | Digest], str]] = {
    "txt": lambda report: terminal.render(_document(report), Colors(colours=False)),
    "ansi": lambda report: terminal.render(_document(report), Colors(colours=True)),
    "md": lambda report: formats.render_markdown(_document(report)),
    "html": lambda report: formats.render_html(_document(report)),
    "json": lambda report: formats.to_json(report, {"slurm": {"state": "COMPLETED"}}),
    "short": formats.short,
}


def _document(report: JobReport | Digest) -> layout.Document:
    if isinstance(report, Digest):
        return layout.digest_document(report, "EUR")
    return layout.job_document(report, "EUR")


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def ended() -> tuple[Scripted, JobReport]:
    prometheus = Scripted(JOB, allocated=(BEGAN, ENDED))
    asked = ReportRequest('slurm_job="4711"', "Slurm job 4711", 7 * 86400.0, changed_at=1_699_400_000.0)
    return prometheus, job_report(prometheus, asked, NOW)


def running() -> tuple[Scripted, JobReport]:
    """It began before the range, runs on one whole GPU, and is paid for by use."""
    whole = {
        **JOB,
        r"^sum \(gpu_workload_allocated_gpus": "{} 1",
        "gpu_mig_allocation_ratio": "",
        "gpu_allocation_ratio": '{node="n1", instance="n1:9835", gpu="0", uuid="GPU-a"} 1',
        "gpu_workload_allocated_gpus": '{node="n1", instance="n1:9835"} 1',
        "gpu_workload_steps_total": "",
        "gpu_workload_expected_seconds_remaining": "{} 18000",
    }
    prometheus = Scripted(whole, allocated=(0.0, NOW))
    asked = ReportRequest('workload_namespace="ml", workload_pod="a"', "Workload ml/a", 36_000.0)
    return prometheus, job_report(prometheus, asked, NOW)


def unseen() -> tuple[Scripted, JobReport]:
    """Shorter than a scrape interval: no sample of it holding a GPU, and hardly anything else."""
    little = {
        "gpu_workload_start_time_seconds": f"{{}} {BEGAN}",
        "gpu_workload_gpu_seconds_total": '{instance="n3", state="unobserved"} 8',
        "gpu_workload_allocated_gpus": '{instance="n3"} 1',
    }
    prometheus = Scripted(little, counted=(BEGAN + 8, BEGAN + 300))
    return prometheus, slurm_job(prometheus, "", "9", 86_400.0, NOW)


def of_everybody() -> tuple[Scripted, Digest]:
    prometheus = Scripted(WEEK)
    return prometheus, digest(prometheus, Group(), 7 * 86400.0, NOW)


def of_account() -> tuple[Scripted, Digest]:
    prometheus = Scripted(WEEK)
    group = Group("account", "physics", "north")
    return prometheus, digest(prometheus, group, 3599.5, NOW)


REPORTS = {each.__name__: each for each in (ended, running, unseen, of_everybody, of_account)}


@pytest.mark.parametrize("name", REPORTS)
def test_report_is_what_it_was_in_every_format(name: str, request: pytest.FixtureRequest) -> None:
    _, report = REPORTS[name]()

    for form, render in FORMS.items():
        compare(GOLDEN / f"{name}.{form}", render(report), request)


@pytest.mark.parametrize("name", REPORTS)
def test_questions_are_what_they_were(name: str, request: pytest.FixtureRequest) -> None:
    prometheus, _ = REPORTS[name]()

    compare(GOLDEN / f"{name}.queries", "".join(f"{each}\n" for each in prometheus.asked), request)


@pytest.mark.parametrize(
    ("since", "answers", "kind", "says"),
    [
        (86_400.0, {}, NoMetricsError, "this Prometheus has no metrics of gpu-exporter"),
        (
            86_400.0,
            {r"^count\(gpu_exporter_build_info\)$": "{} 1"},
            NoDataError,
            "no data about Slurm job 9 in the last 1 d: unknown here, or no GPU was allocated",
        ),
        (
            86_399.0,
            {r"^count_over_time\(count\(gpu_exporter_build_info\)\[86399s:1h\]\)$": "{} 1"},
            NoDataError,
            "no data about Slurm job 9 in the last 23.9997 h: unknown here, or no GPU was allocated",
        ),
    ],
)
def test_job_that_nothing_is_known_of(
    since: float, answers: dict[str, str], kind: type[ReportError], says: str
) -> None:
    with pytest.raises(kind) as raised:
        slurm_job(Scripted(answers), "", "9", since, NOW)

    assert str(raised.value) == says


def _named(*info: str) -> JobReport:
    answers = {**JOB, "gpu_workload_info": "\n".join(f"{{{labels}}} 1" for labels in info)}
    return slurm_job(Scripted(answers, allocated=(BEGAN, ENDED)), "", "4711", 86_400.0, NOW)


def test_nobody_is_named_where_several_are_called_so() -> None:
    """Programs of one name, or sessions on two nodes."""
    name = _named('user="ada", account="physics"', 'user="bob", account="physics"', 'user=""').name

    assert (name.user, name.account) == ("", "physics")


def test_what_is_called_the_same_in_two_clusters_is_asked_about() -> None:
    assert _named('cluster="east", user="ada"', 'user="ada"').name.user == "ada"

    with pytest.raises(SeveralError) as raised:
        _named('cluster="west", user="ada"', 'cluster="east", user="bob"')

    assert str(raised.value) == "Slurm job 4711 is in several clusters, name one by --cluster: east, west"
    assert raised.value.status == 2


_NOTHING_RECORDED = (
    "no recording rule of gpu-exporter has recorded anything in the range: load deploy/prometheus/rules;"
    " where a ruler of its own has just loaded them, ask again in a few minutes"
)


@pytest.mark.parametrize(
    ("answers", "group", "kind", "says"),
    [
        ({}, Group(), NoMetricsError, "this Prometheus has no metrics of gpu-exporter"),
        (
            {r"^count\(gpu_exporter_build_info\)$": "{} 1"},
            Group(),
            NoMetricsError,
            _NOTHING_RECORDED,
        ),
        (
            {r"^max\(count_over_time\(cluster:gpu_exporters:count": "{} 1"},
            Group("user", "ada"),
            NoDataError,
            "no data about user ada in the range: unknown here, or no GPU was allocated",
        ),
        (
            {r"^max\(count_over_time\(cluster:gpu_exporters:count": "{} 1"},
            Group(),
            NoDataError,
            "no data about all owners in the range: unknown here, or no GPU was allocated",
        ),
    ],
)
def test_digest_of_nothing(answers: dict[str, str], group: Group, kind: type[ReportError], says: str) -> None:
    with pytest.raises(kind) as raised:
        digest(Scripted(answers), group, 3600.0, NOW)

    assert str(raised.value) == says


def test_digest_of_a_prometheus_that_has_not_evaluated_its_rules_yet() -> None:
    young = Scripted({r"^count\(gpu_exporter_build_info\)$": "{} 1"}, rules={promql.RULE})

    with pytest.raises(
        NoMetricsError, match="are loaded and have recorded nothing in the range: young ones need a few"
    ):
        digest(young, Group(), 3600.0, NOW)


def test_digest_of_the_first_hour_has_the_causes_of_the_workloads() -> None:
    """Accounts and namespaces are recorded every hour, workloads each minute."""
    answers = {
        r"^sum by \(state\).*workload_state:": '{state="wait_storage"} 1.5',
        r"sum_over_time\(workload:gpu_waste:": '{workload="slurm:1"} 1.5',
        r"sum_over_time\(workload:gpu_workload_allocated:": '{workload="slurm:1"} 4',
    }

    found = digest(Scripted(answers), Group(), 3600.0, NOW)

    assert (found.allocated, found.wasted, dict(found.causes)) == (4.0, 1.5, {"wait_storage": 1.5})
