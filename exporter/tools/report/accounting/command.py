"""`gpu-exporter accounting`: collect the allocations of all nodes, and compare them with the scheduler."""

from __future__ import annotations

import logging
import socket
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from exporter.accounting.model import HOUR_SECONDS
from exporter.accounting.writer import RETENTION_SECONDS
from exporter.config import logs
from exporter.config.command_line import Page
from exporter.config.kinds import (
    address,
    address_text,
    duration,
    names,
    optional_path,
    path,
    text,
    web_address,
    without_password,
)
from exporter.config.logs import LogConfig
from exporter.config.option import ConfigError, option
from exporter.core import site_file
from exporter.core.clock import unix_time
from exporter.host.program import ProgramError
from exporter.tools.report.accounting.collector import NodeAccess, collect, expand, of_cluster
from exporter.tools.report.accounting.database import Database, SchedulerJob
from exporter.tools.report.accounting.metrics import Budgets, Queue, months, waiting
from exporter.tools.report.accounting.prices import read as read_prices
from exporter.tools.report.accounting.sacct import Sacct, SacctError

log = logging.getLogger(__name__)

DATABASE = "accounting.sqlite"
TOLERANCE = 0.01
"""Difference to the scheduler from which on a job is a finding."""
_REGISTRY = CollectorRegistry()
_UNREAD = Gauge("gpu_accounting_unread_nodes", "Exporters that were not read in the last round.", registry=_REGISTRY)
_DIFFERENCE = Gauge(
    "gpu_accounting_scheduler_difference_ratio",
    "GPU time of ended jobs that the scheduler and the nodes count differently, of all that the scheduler counts, at"
    " the last daily check. Jobs that differ by less than 1 % are left out. 0 before the first check.",
    registry=_REGISTRY,
)
_DAY = Gauge(
    "gpu_accounting_day_gpu_seconds",
    "GPU time of all GPUs, free or not, in the last 24 whole hours; 0 before it has collected for as long.",
    registry=_REGISTRY,
)
_QUEUE = Queue(lambda: float(unix_time()))
_BUDGETS = Budgets()
_REGISTRY.register(_QUEUE)
_REGISTRY.register(_BUDGETS)
_SHOW_INTERVAL_SECONDS = 120.0
"""Seconds between two counts of the months and of the waiting jobs."""
_CHECK_INTERVAL_SECONDS = 86400.0
_RETRY_INTERVAL_SECONDS = 3600.0
"""Seconds until the scheduler is asked again that did not answer. It is asked for the same jobs, and for later ones."""
_SETTLED_SECONDS = 3600.0
"""Seconds after a job's end until it is compared: its nodes have been asked by then."""

PAGE = Page(
    "gpu-exporter accounting",
    "Collect the allocations of all nodes into one database. `gpu-exporter report --month` reads it.",
    """\
exit status:
  0 done   2 wrong option
  1 with --interval 0: a node did not answer, or a job differs from sacct

examples:
  gpu-exporter accounting --nodes https://gpu01:9836,https://gpu02:9836 --username prometheus --password-file FILE
""",
)


@dataclass(frozen=True, kw_only=True)
class AccountingConfig:
    """Every option of `gpu-exporter accounting`."""

    nodes: tuple[str, ...] = option(
        "",
        names,
        "URLs of the exporters, after the cluster where it is not --cluster: west=https://gpu01:9836. A name with"
        " several addresses (a headless service) is each of them.",
        metavar="[CLUSTER=]URL,...",
        group="Collect",
    )
    username: str = option("", text, "User name of the exporters.", metavar="NAME", group="Collect")
    password_file: Path | None = option("", optional_path, "Its password.", metavar="FILE", group="Collect")
    ca_file: Path | None = option("", optional_path, "Certificates to trust.", metavar="FILE", group="Collect")
    interval: float = option(
        "30s", duration, "Time between two rounds; 0: one round.", metavar="DURATION", group="Collect"
    )
    retention: float = option("400d", duration, "Time hours are kept; sums stay.", metavar="DURATION", group="Collect")
    sacct: str = option(
        "", text, "Compares ended jobs once a day: sacct.", metavar="COMMAND", group="Collect", name="slurm.sacct"
    )
    squeue: str = option(
        "", text, "Exports waiting jobs: squeue.", metavar="COMMAND", group="Collect", name="slurm.squeue"
    )
    prices: Path | None = option(
        "",
        optional_path,
        "Prices and budgets of the site (YAML): exports the month of each team with a budget.",
        metavar="FILE",
        group="Collect",
        name="prices.file",
    )
    cluster: str = option(
        "", text, "Cluster of the nodes and Slurm; its metrics leave out others.", metavar="NAME", group="Collect"
    )
    state_dir: Path = option(
        "/var/lib/gpu-exporter-accounting",
        path,
        "Database directory.",
        metavar="DIR",
        group="Collect",
        name="state.dir",
    )
    listen: tuple[str, int] = option(
        "127.0.0.1:9837",
        address,
        "Address of its own metrics.",
        metavar="ADDRESS",
        group="Collect",
        name="accounting.listen-address",
    )


def run(config: AccountingConfig) -> int:
    logs.configure(LogConfig())
    if not config.nodes:
        raise ConfigError("accounting: expected --nodes")
    for node in config.nodes:
        _refuse_other(node)
    if config.password_file and not config.username:
        raise ConfigError("--password-file: expected with --username")
    if config.retention <= RETENTION_SECONDS:
        raise ConfigError("--retention: expected more than 7d, for which nodes keep what is not collected")
    if config.prices:
        read_prices(config.prices)  # a bad file is refused; one that turns bad later leaves the months as they were
    try:
        database = Database(config.state_dir / DATABASE, config.cluster)
    except sqlite3.Error as error:
        raise ConfigError(f"--state.dir {config.state_dir}: {error}") from None
    try:
        return _collect(config, database)
    finally:
        database.close()


def _refuse_other(node: str) -> None:
    """Raise ConfigError for what is no URL of a node."""
    try:
        if web_address(of_cluster(node)[1]):
            return
    except ValueError:
        pass
    raise ConfigError(f"--nodes: expected [CLUSTER=]http://HOST or https://HOST, got {without_password(node)!r}")


def _collect(config: AccountingConfig, database: Database) -> int:
    access = NodeAccess(
        config.username, _content("password-file", config.password_file).strip(), str(config.ca_file or "")
    )
    _content("ca-file", config.ca_file)
    if config.interval:
        _serve_metrics(*config.listen)
    failing: dict[str, str] = {}
    comparison, shown = _Comparison(config, database, float(unix_time())), 0.0
    while True:
        now = float(unix_time())
        errors = dict(collect(database, tuple(expand(config.nodes)), access.ask, lambda: float(unix_time())))
        _UNREAD.set(len(errors))
        differences = 0
        try:
            database.sum_hours()
            if now >= comparison.due or not config.interval:
                differences = comparison.run(now)
                database.forget(now - config.retention)
            if now - shown >= _SHOW_INTERVAL_SECONDS:
                shown = now
                errors |= _show_months(database, config, now) | _ask_queue(config.squeue)
        except sqlite3.Error as error:  # a full disk: the next round goes on
            errors[str(config.state_dir / DATABASE)] = str(error)
        for source in errors.keys() - failing.keys():
            log.warning("%s is not read: %s", without_password(source), errors[source])
        failing = errors
        if not config.interval:
            return 1 if errors or differences else 0
        threading.Event().wait(config.interval)


def _show_months(database: Database, config: AccountingConfig, now: float) -> dict[str, str]:
    """Count the last day and the month of each team with a budget anew. Return what went wrong."""
    hour = now // HOUR_SECONDS * HOUR_SECONDS
    day = hour - 24 * HOUR_SECONDS, hour
    whole = database.hours_covered(*day) == 24  # noqa: PLR2004 - hours
    _DAY.set(sum(each.seconds for each in database.totals("model", *day)) if whole else 0)
    try:
        if config.prices:
            _BUDGETS.teams = months(database, read_prices(config.prices), now)
    except ConfigError as error:
        return {str(config.prices): str(error)}
    return {}


def _ask_queue(squeue: str) -> dict[str, str]:
    """Read the waiting jobs. Return what went wrong."""
    try:
        _QUEUE.jobs = waiting(squeue) if squeue else None
    except ProgramError as error:
        _QUEUE.jobs = None
        return {squeue: str(error)}
    return {}


def _serve_metrics(host: str, port: int) -> None:
    every = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    try:
        start_http_server(port, host or every, _REGISTRY)
    except OSError as error:
        raise ConfigError(f"--accounting.listen-address {address_text(host, port)}: {error}") from None


class _Comparison:
    """Daily comparison of ended jobs with the scheduler's record."""

    def __init__(self, config: AccountingConfig, database: Database, now: float) -> None:
        self._config = config
        self._database = database
        self._since = now - _CHECK_INTERVAL_SECONDS
        self.due = 0.0

    def run(self, now: float) -> int:
        """Compare the jobs that ended since the last comparison. Return how many differ."""
        self.due = now + _CHECK_INTERVAL_SECONDS
        if not self._config.sacct:
            return 0
        try:
            ended = Sacct(self._config.sacct).ended(self._since - _SETTLED_SECONDS, now - _SETTLED_SECONDS)
        except SacctError as error:
            log.warning("not compared with the scheduler: %s", error)
            self.due = now + _RETRY_INTERVAL_SECONDS
            return 0
        jobs = [
            SchedulerJob(job.raw_id, job.start, job.end, job.gpus, job.user, job.account)
            for job in ended
            if job.start and job.end and job.gpus and not job.shared
        ]
        found = self._database.compare(jobs, TOLERANCE)
        self._since = now
        if expected := sum(job.gpus * (job.end - job.start) for job in jobs):
            _DIFFERENCE.set(sum(abs(each.scheduler - each.nodes) for each in found) / expected)
        for each in found:
            log.warning(
                "job %s: %.2f GPU hours by the scheduler, %.2f by the nodes",
                *(each.job, each.scheduler / 3600, each.nodes / 3600),
            )
        return len(found)


def _content(option: str, file: Path | None) -> str:
    try:
        return site_file.read(file) if file else ""
    except site_file.SiteFileError as error:
        raise ConfigError(f"--{option} {file}: {error}") from None
