"""`gpu-exporter report`: what a job, a pod, a user or everybody made of the GPUs, from Prometheus."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.config import load as config
from exporter.config.command_line import ARGUMENT, Page
from exporter.config.network import without_password
from exporter.config.option import ConfigError
from exporter.core import site_file
from exporter.core.clock import unix_time
from exporter.daemon import standard_streams
from exporter.daemon.complaint import complain
from exporter.tools.report import layout_digest, layout_job, promql
from exporter.tools.report.client import Access, Client
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.failure import ReportError
from exporter.tools.report.formats import data, markdown, page, plain
from exporter.tools.report.job import ReportRequest, job_report, nothing, slurm_job, window
from exporter.tools.report.model import Digest, JobReport
from exporter.tools.report.options import OPTIONS
from exporter.tools.report.price import PRICES
from exporter.tools.report.subject import EXPECTED, Named, named, selected
from exporter.tools.report.summaries import digest_jobs, layout
from exporter.tools.report.summaries.sacct import Sacct, SacctError
from exporter.tools.report.summaries.summary import is_of
from exporter.tools.report.terminal import Colors, paint, progress_message

_ARGUMENT = "NAME"
PAGE = Page(
    "gpu-exporter report",
    "What a job made of its GPUs, where the hours went and what to change; or a digest of a period.",
    """\
exit status:
  0 report printed     2 wrong option
  3 no data about it   4 no Prometheus at the URL   5 not authorized
  6 time-out           7 the query was refused
  8 no metrics, or no recording rules, of gpu-exporter

examples:
  gpu-exporter report 4711 --prometheus.url http://prometheus:9090
  gpu-exporter report 4711_3 --format short   # an element of the array 4711;
                                              # 4711+1 of a heterogeneous job
  gpu-exporter report team-a/llm-70b          # a Deployment, Job, PyTorchJob
                                              # with all its pods; or a pod
  gpu-exporter report 4711 --changed-at 2026-11-20T14:00
                                     # runs of its name before and after that
  gpu-exporter report --pod team-a/train-0 --format html > train-0.html
  gpu-exporter report --user alice --since 7d
  gpu-exporter report --all --since 7d --format markdown
""",
    argument=_ARGUMENT,
)
_SECRET, _CERTIFICATES = 64 << 10, 16 << 20
"""Bytes of a file."""
_IN_UTF8 = ("json", "html")
_DIGESTS = ("user", "account", "namespace")
_SUBJECTS = ("pod", "workload", *_DIGESTS, "all")
"""Options that say what the report is of."""


class Report(NamedTuple):
    """A report, and what Slurm's accounting calls the job that it is of."""

    report: JobReport | Digest
    job: str = ""


Subject = Callable[[Client, float], Report]


def run(arguments: Sequence[str]) -> int:
    """Status as in the page above."""
    settings = config.load(arguments, os.environ, OPTIONS, PAGE)
    subject = _subject(settings, settings[ARGUMENT])
    client = Client(access(settings))
    try:
        with progress_message(f"asking {without_password(settings['prometheus.url'])}"):
            report, job = subject(client, float(unix_time()))
    except ReportError as error:
        complain(f"report: {error}")
        return error.status
    accounted = _accounted(report, job, settings, client)
    if settings["format"] in _IN_UTF8:
        standard_streams.in_utf8()
    sys.stdout.write(_render(report, accounted, settings, paint(sys.stdout)))
    return 0


def _accounted(
    report: JobReport | Digest, job: str, settings: config.Config, client: Client
) -> layout.SlurmPart | None:
    """What slurmdbd has of the job, or of the digest's jobs, where there is a sacct to ask."""
    if not shutil.which(settings["slurm.sacct"]):
        return None
    sacct = Sacct(settings["slurm.sacct"])
    try:
        if isinstance(report, Digest):
            return layout.slurm_jobs(digest_jobs.jobs(report, sacct, partial(slurm_job, client, settings["cluster"])))
        known = sacct.of_name(job) if job else None
    except SacctError as error:
        complain(f"report: without Slurm's accounting: {error}")
        return None
    return layout.slurm(report, known) if known and is_of(report, known) else None


def _subject(settings: config.Config, name: str) -> Subject:
    """What is asked for. Raises ConfigError unless it is exactly one thing."""
    options = [option for option in _SUBJECTS if settings[option]]
    wanted = options + ([_ARGUMENT] if name else [])
    if len(wanted) != 1:
        known = ", ".join(f"--{option}" for option in _SUBJECTS)
        given = " and ".join(f"--{each}" if each != _ARGUMENT else each for each in wanted) or "nothing"
        raise ConfigError(f"report: expected one of {_ARGUMENT}, {known}; got {given}")
    prices, by = (*settings["price"], *PRICES), settings["price-by"]
    if settings["all"] or wanted[0] in _DIGESTS:
        level = "" if settings["all"] else wanted[0]
        group = Group(level, settings[level] if level else "", settings["cluster"])
        return lambda client, now: Report(digest(client, group, settings["since"], prices, now, by))
    wanted_one = _named(settings, name)
    cluster = promql.matchers(cluster=settings["cluster"]) if settings["cluster"] else ""

    def one(client: Client, now: float) -> Report:
        since = settings["since"]
        found = selected(client, wanted_one, cluster, window(since), now)
        if found is None:
            raise nothing(client, wanted_one.title, since, now)
        request = ReportRequest(found.selector, found.title, since, by, settings["changed-at"] or None)
        return Report(job_report(client, request, prices, now), found.job)

    return one


def _named(settings: config.Config, name: str) -> Named:
    """What the argument, or the option that names one workload, may mean. Raises ConfigError."""
    if name:
        found = named(name)
        if not found:
            raise ConfigError(f"report: {EXPECTED}, got {name!r}")
        return found
    if not settings["pod"]:
        return Named(settings["workload"], (promql.matchers(workload=settings["workload"]),))
    namespace, slash, pod = settings["pod"].partition("/")
    if not (namespace and slash and pod) or "/" in pod:
        raise ConfigError(f"--pod: expected NAMESPACE/NAME, got {settings['pod']!r}")
    return Named(f"Pod {settings['pod']}", (promql.matchers(namespace=namespace, pod=pod),))


def access(settings: config.Config) -> Access:
    """How to reach the Prometheus that the options name. Raises ConfigError."""
    if not settings["prometheus.url"]:
        raise ConfigError("--prometheus.url: expected http://HOST or https://HOST, got ''")
    ca, user, token = settings["prometheus.ca-file"], settings["prometheus.username"], "prometheus.bearer-token-file"
    if ca:
        _content(settings, "prometheus.ca-file", _CERTIFICATES)
    if ":" in user:
        raise ConfigError(f"--prometheus.username: expected no colon, got {user!r}")
    if settings["prometheus.password-file"] and not user:
        raise ConfigError("--prometheus.password-file: expected with --prometheus.username")
    if not _secret(settings, token).isascii():
        raise ConfigError(f"--{token} {settings[token]}: expected a token of ASCII characters")
    return Access(
        url=settings["prometheus.url"],
        timeout=settings["prometheus.timeout"],
        token=_secret(settings, token),
        user=user,
        password=_secret(settings, "prometheus.password-file"),
        ca=ca,
        headers=_headers(settings["prometheus.headers"]),
    )


def _secret(settings: config.Config, option: str) -> str:
    """The one line of the file that the option names; empty without one."""
    if not settings[option]:
        return ""
    found = _content(settings, option, _SECRET).strip()
    if not found or not found.isprintable():
        raise ConfigError(f"--{option} {settings[option]}: expected one line of text")
    return found


def _content(settings: config.Config, option: str, limit: int) -> str:
    try:
        return site_file.read(Path(settings[option]), limit)
    except site_file.SiteFileError as error:
        raise ConfigError(f"--{option} {settings[option]}: {error}") from None


def _headers(text: str) -> Mapping[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        sendable = value.isascii() and value.isprintable()
        if not (equals and sendable and re.fullmatch(r"[\w-]+", name.strip(), re.ASCII)):
            raise ConfigError(f"--prometheus.headers: expected NAME=VALUE with commas between, got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _render(
    report: JobReport | Digest, slurm: layout.SlurmPart | None, settings: config.Config, colours: Colors
) -> str:
    form = settings["format"]
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
