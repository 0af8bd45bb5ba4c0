"""`gpu-exporter report`: what a job, a pod, a user or everybody made of the GPUs, from Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from exporter.clock import unix_time
from exporter.config import load as config
from exporter.config.option import ConfigError
from exporter.report import layout_digest, layout_job, promql
from exporter.report.client import Access, Client
from exporter.report.digest import Group, digest
from exporter.report.failure import ReportError
from exporter.report.formats import data, markdown, page, plain
from exporter.report.job import ReportRequest, element_selector, job_report
from exporter.report.model import Digest, JobReport
from exporter.report.options import OPTIONS
from exporter.report.price import PRICES
from exporter.report.terminal import Colors, paint, progress_message
from exporter.summaries import layout
from exporter.summaries.sacct import AccountedJob, Sacct, SacctError

PAGE = config.Page(
    "gpu-exporter report",
    "What a job made of its GPUs, where the hours went and what to change; or a digest of a period.",
    """\
exit status:
  0 report printed          2 wrong option
  3 no data about it        4 no Prometheus at the URL   5 not authorized
  6 time-out                7 the query was refused      8 no metrics, or no recording rules, of gpu-exporter

examples:
  gpu-exporter report 4711 --prometheus.url http://prometheus:9090
  gpu-exporter report 4711_3 --format short          (of an array; 4711+1 of a heterogeneous job)
  gpu-exporter report --pod team-a/train-0 --since 2d --format html > train-0.html
  gpu-exporter report --user alice --since 7d
  gpu-exporter report --all --since 7d --format markdown
""",
    argument="JOBID",
)
_JOB = re.compile(r"(\d+)(?:([_+])(\d+))?")
_PARTS = {"_": ("slurm_array_job", "slurm_array_task"), "+": ("slurm_het_job", "slurm_het_offset")}
"""Labels by which an element of an array, and a component of a heterogeneous job, is known."""
_DIGESTS = ("user", "account", "namespace")

Subject = Callable[[Client, float], JobReport | Digest]


def run(arguments: Sequence[str]) -> int:
    """Status as in the page above."""
    settings = config.load(arguments, os.environ, OPTIONS, PAGE)
    job = settings[config.ARGUMENT]
    subject = _subject(settings, job)
    client = Client(access(settings))
    try:
        with progress_message(f"asking {settings['prometheus.url']}"):
            report = subject(client, float(unix_time()))
    except ReportError as error:
        sys.stderr.write(f"gpu-exporter: report: {error}\n")
        return error.status
    accounted = _accounted(job, settings) if isinstance(report, JobReport) else None
    sys.stdout.write(_render(report, accounted, settings, paint(sys.stdout)))
    return 0


def _accounted(job: str, settings: config.Config) -> AccountedJob | None:
    """What slurmdbd has of the job, where there is a sacct to ask."""
    if not job or not shutil.which(settings["slurm.sacct"]):
        return None
    try:
        return Sacct(settings["slurm.sacct"]).of_name(job)
    except SacctError as error:
        sys.stderr.write(f"gpu-exporter: report: without Slurm's accounting: {error}\n")
        return None


def _subject(settings: config.Config, job: str) -> Subject:
    """What is asked for. Raises ConfigError unless it is exactly one thing."""
    wanted = [name for name in ("pod", "workload", *_DIGESTS, "all") if settings[name]] + (["JOBID"] if job else [])
    if len(wanted) != 1:
        said = " and ".join(f"--{name}" if name != "JOBID" else name for name in wanted) or "nothing"
        raise ConfigError(f"report: expected one of JOBID, --pod, --workload, --user, --account, --all; got {said}")
    prices = (*settings["price"], *PRICES)
    if settings["all"] or wanted[0] in _DIGESTS:
        level = "" if settings["all"] else wanted[0]
        group = Group(level, settings[level] if level else "", settings["cluster"])
        return lambda client, now: digest(client, group, settings["since"], prices, now)
    select = _job_selector(settings, job) if job else _other_selector(settings)
    title = f"Slurm job {job}" if job else f"Pod {settings['pod']}" if settings["pod"] else settings["workload"]
    cluster = promql.matchers(cluster=settings["cluster"]) if settings["cluster"] else ""

    def one(client: Client, now: float) -> JobReport:
        selector = ", ".join(part for part in (select(client, now), cluster) if part)
        return job_report(client, ReportRequest(selector, title, settings["since"]), prices, now)

    return one


def _job_selector(settings: config.Config, job: str) -> Callable[[Client, float], str]:
    match = _JOB.fullmatch(job)
    if not match:
        raise ConfigError(f"report: expected a job id such as 4711, 4711_3 or 4711+1, got {job!r}")
    if not match[2]:
        selector = promql.matchers(slurm_job=match[1])
        return lambda _client, _now: selector
    cluster = {"cluster": settings["cluster"]} if settings["cluster"] else {}
    of_whole, of_part = _PARTS[match[2]]
    told = promql.matchers(**{of_whole: match[1], of_part: match[3]}, **cluster)
    return lambda client, now: element_selector(client, f"Slurm job {job}", told, settings["since"], now)


def _other_selector(settings: config.Config) -> Callable[[Client, float], str]:
    if settings["pod"]:
        namespace, slash, pod = settings["pod"].partition("/")
        if not (namespace and slash and pod) or "/" in pod:
            raise ConfigError(f"--pod: expected NAMESPACE/NAME, got {settings['pod']!r}")
        selector = promql.matchers(namespace=namespace, pod=pod)
    else:
        selector = promql.matchers(workload=settings["workload"])
    return lambda _client, _now: selector


def access(settings: config.Config) -> Access:
    """How to reach the Prometheus that the options name. Raises ConfigError."""
    url = settings["prometheus.url"]
    if not re.fullmatch(r"https?://[^\s/]+.*", url):
        raise ConfigError(f"--prometheus.url: expected http://HOST or https://HOST, got {url!r}")
    ca = settings["prometheus.ca-file"]
    if ca:
        _secret(settings, "prometheus.ca-file")
    return Access(
        url=url,
        timeout=settings["prometheus.timeout"],
        token=_secret(settings, "prometheus.bearer-token-file"),
        user=settings["prometheus.username"],
        password=_secret(settings, "prometheus.password-file"),
        ca=ca,
        headers=_headers(settings["prometheus.headers"]),
    )


def _secret(settings: config.Config, option: str) -> str:
    """The content of the file the option names; empty without one."""
    file = settings[option]
    if not file:
        return ""
    try:
        return Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--{option} {file}: {getattr(error, 'strerror', None) or error}") from None


def _headers(text: str) -> Mapping[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not equals or not re.fullmatch(r"[\w-]+", name.strip()) for name, equals, _ in pairs):
        raise ConfigError(f"--prometheus.headers: expected NAME=VALUE with commas between, got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _render(
    report: JobReport | Digest, accounted: AccountedJob | None, settings: config.Config, colours: Colors
) -> str:
    form = settings["format"]
    slurm = layout.slurm(report, accounted) if isinstance(report, JobReport) and accounted else None
    if form == "json":
        return data.to_json(report, slurm.fields if slurm else {})
    if form == "short":
        return data.short(report)
    currency = settings["currency"]
    document = (
        layout_job.document(report, currency)
        if isinstance(report, JobReport)
        else layout_digest.document(report, currency)
    )
    if slurm:
        document = replace(document, blocks=(*document.blocks, *slurm.blocks))
    if form == "markdown":
        return markdown.render(document)
    return page.render(document) if form == "html" else plain.render(document, colours)
