"""`gpu-exporter report`: what a job, a pod, a user or everybody made of the GPUs, and what a month cost a team."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.config.command_line import Page
from exporter.config.kinds import without_password
from exporter.config.logs import print_error, write_utf8
from exporter.config.option import ConfigError
from exporter.core import site_file
from exporter.core.clock import unix_time
from exporter.core.printable import printable, printable_json
from exporter.host.text import exists
from exporter.tools.report import formats, layout, promql, terminal, words
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.prices import Month, Prices, rules
from exporter.tools.report.accounting.prices import read as read_prices
from exporter.tools.report.accounting.sacct import Sacct, SacctError
from exporter.tools.report.client import Access, Client, NoDataError, NoMetricsError, ReportError
from exporter.tools.report.digest import Group, digest
from exporter.tools.report.document import Document
from exporter.tools.report.job import ReportRequest, job_report, nothing, slurm_job, window
from exporter.tools.report.model import Digest, JobReport
from exporter.tools.report.options import MONTH_FORMATS, PrometheusConfig, ReportConfig
from exporter.tools.report.showback import document, showback, to_csv, to_focus, to_json, to_opencost
from exporter.tools.report.subject import EXPECTED, Named, named, selected
from exporter.tools.report.summary import SlurmPart, is_of, jobs, slurm, slurm_facts, slurm_jobs
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
  gpu-exporter report --month 2026-10 --team vision --prices.file prices.yaml
  gpu-exporter report --month 2026-10 --team vision --by job --format csv
""",
    argument=_ARGUMENT,
)
_SECRET, _CERTIFICATES = 64 << 10, 16 << 20
"""Bytes of a file."""
_IN_UTF8 = ("json", "html", *MONTH_FORMATS)
_EXPORTED = ("focus", "opencost")
_DIGESTS = ("user", "account", "namespace")
_SUBJECTS = ("pod", "workload", *_DIGESTS, "all")
"""Options that say what the report is of."""


class NamedReport(NamedTuple):
    """A report, and what Slurm's accounting calls the job that it is of."""

    report: JobReport | Digest
    job: str = ""


Subject = Callable[[Client, float], NamedReport]


def run(config: ReportConfig) -> int:
    """Status as in the page above."""
    prices = read_prices(config.prices) if config.prices else None
    if config.format == "rules":
        if prices is None:
            raise ConfigError("--format rules: expected with --prices.file")
        sys.stdout.write(rules(prices))
        return 0
    if config.month:
        return _print_month(config, config.month, prices or Prices("", ()))
    if config.format in MONTH_FORMATS or config.team:
        raise ConfigError("--team and --format csv, focus and opencost: expected with --month")
    subject = _requested_subject(config)
    client = Client(access(config.prometheus))
    try:
        with progress_message(f"asking {without_password(config.prometheus.url)}"):
            report, job = subject(client, float(unix_time()))
    except ReportError as error:
        text = _without_gpus(config) if type(error) in {NoDataError, NoMetricsError} else ""
        if not text:
            print_error(f"report: {error}")
            return error.status
    else:
        part = _slurm_part(report, job, config, client)
        priced = client.instant("gpu:price_per_hour", float(unix_time()))
        currency = priced[0].labels.get("currency", "") if priced else ""
        text = _render_report(report, part, config, paint(sys.stdout), currency)
    return _write_output(text, config)


def _refuse_ignored(config: ReportConfig, prices: Prices) -> None:
    """Raise ConfigError for an option that a month does not heed."""
    ignored = [f"--{each.replace('_', '-')}" for each in (*_SUBJECTS, "changed_at") if getattr(config, each)]
    ignored += [_ARGUMENT] if config.name else []
    ignored += ["--format short"] if config.format == "short" else []
    if ignored:
        raise ConfigError(f"--month: expected without {ignored[0]}")
    if config.format in _EXPORTED and not prices.rows:
        raise ConfigError(f"--format {config.format}: expected prices in --prices.file")


def _print_month(config: ReportConfig, of: Month, prices: Prices) -> int:
    """Print what each group got in a month. Raises ConfigError."""
    exported = config.format in _EXPORTED
    _refuse_ignored(config, prices)
    path = config.accounting.database
    if path is None or not exists(path):
        raise ConfigError("--month: expected --accounting.database, that of `gpu-exporter accounting`")
    try:
        with contextlib.closing(Database(path, config.cluster, reads=True)) as database:
            found = showback(database, of, config.by, config.team, prices, float(unix_time()))
            charges = database.charges(config.by, of.begin, of.end, prices, config.team) if exported else ()
    except sqlite3.Error as error:
        raise ConfigError(f"--accounting.database {path}: {error}") from None
    print_error(f"{of.name}: {found.coverage}")
    if not found.rows:
        print_error(f"report: no GPU time{' of ' + config.team if config.team else ''} in {of.name}")
        return NoDataError.status
    if exported:
        if unpriced := sum(charge.hours for charge in charges if charge.price is None):
            print_error(f"report: {words.hours(unpriced)} have no price and are not in it")
        write = to_focus if config.format == "focus" else to_opencost
        return _write_output(write(charges, of, prices.currency), config)
    if config.format in ("csv", "json"):
        return _write_output(to_csv(found) if config.format == "csv" else to_json(found), config)
    return _write_output(_format_document(document(found), config, paint(sys.stdout)), config)


def _write_output(text: str, config: ReportConfig) -> int:
    if config.format in _IN_UTF8:
        write_utf8()
    sys.stdout.write(text)
    return 0


def _without_gpus(config: ReportConfig) -> str:
    """Return what slurmdbd has of a job without GPUs; empty if it knows no such job."""
    job = found.job if config.name and (found := named(config.name)) else ""
    try:
        known = Sacct(config.sacct).of_name(job) if job and shutil.which(config.sacct) else None
    except SacctError:
        known = None
    if known is None or known.allocated_gpus:
        return ""
    facts = slurm_facts(known)
    if config.format == "json":
        return printable_json({"slurm": asdict(known)}, 2) + "\n"
    if config.format == "short":
        return printable("; ".join(f"{name} {value}" for name, value in facts.rows)) + "\n"
    document = Document(f"Slurm job {known.name} of {known.user}: no GPU", (facts,))
    return _format_document(document, config, paint(sys.stdout))


def _slurm_part(report: JobReport | Digest, job: str, config: ReportConfig, client: Client) -> SlurmPart | None:
    """Return what slurmdbd has of the job, or of the digest's jobs, where there is a sacct to ask."""
    if not shutil.which(config.sacct):
        return None
    sacct = Sacct(config.sacct)
    try:
        if isinstance(report, Digest):
            return slurm_jobs(jobs(report, sacct, partial(slurm_job, client, config.cluster)))
        known = sacct.of_name(job) if job else None
    except SacctError as error:
        print_error(f"report: without Slurm's accounting: {error}")
        return None
    return slurm(report, known) if known and is_of(report, known) else None


def _requested_subject(config: ReportConfig) -> Subject:
    """Return what is asked for. Raises ConfigError unless it is exactly one thing."""
    options = [option for option in _SUBJECTS if getattr(config, option)]
    wanted = options + ([_ARGUMENT] if config.name else [])
    if len(wanted) != 1:
        known = ", ".join(f"--{option}" for option in _SUBJECTS)
        given = " and ".join(f"--{each}" if each != _ARGUMENT else each for each in wanted) or "nothing"
        raise ConfigError(f"report: expected one of {_ARGUMENT}, {known}; got {given}")
    if config.all or wanted[0] in _DIGESTS:
        level = "" if config.all else wanted[0]
        group = Group(level, getattr(config, level) if level else "", config.cluster)
        return lambda client, now: NamedReport(digest(client, group, config.since, now))
    wanted_one = _named_argument(config)
    cluster = promql.matchers(cluster=config.cluster) if config.cluster else ""

    def one(client: Client, now: float) -> NamedReport:
        found = selected(client, wanted_one, cluster, window(config.since), now)
        if found is None:
            raise nothing(client, wanted_one.title, config.since, now)
        request = ReportRequest(found.selector, found.title, config.since, config.changed_at)
        return NamedReport(job_report(client, request, now), found.job)

    return one


def _named_argument(config: ReportConfig) -> Named:
    """Return what the argument, or the option that names one workload, may mean. Raises ConfigError."""
    if config.name:
        found = named(config.name)
        if not found:
            raise ConfigError(f"report: {EXPECTED}, got {config.name!r}")
        return found
    if not config.pod:
        return Named(config.workload, (promql.matchers(workload=config.workload),))
    namespace, slash, pod = config.pod.partition("/")
    if not (namespace and slash and pod) or "/" in pod:
        raise ConfigError(f"--pod: expected NAMESPACE/NAME, got {config.pod!r}")
    return Named(f"Pod {config.pod}", (promql.matchers(workload_namespace=namespace, workload_pod=pod),))


def access(config: PrometheusConfig) -> Access:
    """Return the access to the Prometheus that the options name. Raises ConfigError."""
    if not config.url:
        raise ConfigError("--prometheus.url: expected http://HOST or https://HOST, got ''")
    if config.ca_file:
        _read_content("ca-file", config.ca_file, _CERTIFICATES)
    if ":" in config.username:
        raise ConfigError(f"--prometheus.username: expected no colon, got {config.username!r}")
    if config.password_file and not config.username:
        raise ConfigError("--prometheus.password-file: expected with --prometheus.username")
    token = _read_secret("bearer-token-file", config.bearer_token_file)
    if not token.isascii():
        raise ConfigError(
            f"--prometheus.bearer-token-file {config.bearer_token_file}: expected a token of ASCII characters"
        )
    return Access(
        url=config.url,
        timeout=config.timeout,
        token=token,
        user=config.username,
        password=_read_secret("password-file", config.password_file),
        ca=str(config.ca_file or ""),
        headers=_parse_headers(config.headers),
    )


def _read_secret(option: str, file: Path | None) -> str:
    """The one line of the file that an option names; empty without one."""
    if file is None:
        return ""
    found = _read_content(option, file, _SECRET).strip()
    if not found or not found.isprintable():
        raise ConfigError(f"--prometheus.{option} {file}: expected one line of text")
    return found


def _read_content(option: str, file: Path, limit: int) -> str:
    try:
        return site_file.read(file, limit)
    except site_file.SiteFileError as error:
        raise ConfigError(f"--prometheus.{option} {file}: {error}") from None


def _parse_headers(text: str) -> Mapping[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        sendable = value.isascii() and value.isprintable()
        if not (equals and sendable and re.fullmatch(r"[\w-]+", name.strip(), re.ASCII)):
            raise ConfigError(f"--prometheus.headers: expected NAME=VALUE with commas between, got {text!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _render_report(
    report: JobReport | Digest, part: SlurmPart | None, config: ReportConfig, colours: Colors, currency: str
) -> str:
    form = config.format
    if form == "json":
        return formats.to_json(report, part.fields if part else {})
    if form == "short":
        return formats.short(report)
    document = (
        layout.job_document(report, currency)
        if isinstance(report, JobReport)
        else layout.digest_document(report, currency)
    )
    if part:
        document = replace(document, blocks=(*document.blocks, *part.blocks))
    return _format_document(document, config, colours)


def _format_document(document: Document, config: ReportConfig, colours: Colors) -> str:
    form = config.format
    if form == "markdown":
        return formats.render_markdown(document)
    return formats.render_html(document) if form == "html" else terminal.render(document, colours)
