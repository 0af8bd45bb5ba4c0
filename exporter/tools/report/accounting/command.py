"""`gpu-exporter accounting`: collect the allocations of all nodes, or list what teams and jobs got in a month."""

from __future__ import annotations

import csv
import json
import logging
import sqlite3
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from exporter.config.command_line import Page
from exporter.config.kinds import choice, duration, names, optional_path, path, text
from exporter.config.option import ConfigError, option
from exporter.core import site_file
from exporter.core.clock import unix_time
from exporter.daemon import logs
from exporter.daemon.logs import LogConfig, print_error
from exporter.tools.report.accounting.collector import NodeAccess, collect, expand
from exporter.tools.report.accounting.database import GROUPS, Cost, Database, Total
from exporter.tools.report.accounting.prices import Prices
from exporter.tools.report.accounting.prices import read as read_prices
from exporter.tools.report.definitions import LOST
from exporter.tools.report.sacct import Sacct, SacctError

log = logging.getLogger(__name__)

DATABASE = "accounting.sqlite"
TOLERANCE = 0.01
"""Difference to the scheduler from which on a job is a finding."""
_CHECK_EVERY = 86400.0
_SETTLED = 3600.0
"""Seconds after a job's end until it is compared: its nodes have been asked by then."""
_SECRET_BYTES = 1 << 10

PAGE = Page(
    "gpu-exporter accounting",
    "Collect the allocations of all nodes into one database. With --month, list what each team got.",
    """\
exit status:
  0 done   2 wrong option
  1 with --interval 0: a node did not answer, or a job differs from sacct

examples:
  gpu-exporter accounting --nodes https://gpu01:9836,https://gpu02:9836 --username prometheus --password-file FILE
  gpu-exporter accounting --month 2026-10 --by team
  gpu-exporter accounting --month 2026-10 --team vision --by job --format json
""",
)


@dataclass(frozen=True, kw_only=True)
class AccountingConfig:
    """Every option of `gpu-exporter accounting`."""

    nodes: tuple[str, ...] = option(
        "",
        names,
        "URLs of the exporters. A name with several addresses (a headless service) is each of them.",
        metavar="URL,...",
        group="Collect",
    )
    username: str = option("", text, "User name of the exporters.", metavar="NAME", group="Collect")
    password_file: Path | None = option("", optional_path, "Its password.", metavar="FILE", group="Collect")
    ca_file: Path | None = option("", optional_path, "Certificates to trust.", metavar="FILE", group="Collect")
    interval: float = option(
        "30s", duration, "Time between two rounds; 0: one round.", metavar="DURATION", group="Collect"
    )
    retention: float = option("400d", duration, "How long hours are kept.", metavar="DURATION", group="Collect")
    sacct: str = option(
        "", text, "Compares ended jobs once a day: sacct.", metavar="COMMAND", group="Collect", name="slurm.sacct"
    )
    state_dir: Path = option(
        "/var/lib/gpu-exporter-accounting", path, "Directory of the database.", metavar="DIR", name="state.dir"
    )
    prices_file: Path | None = option(
        "", optional_path, "Prices of the site (YAML).", metavar="FILE", group="List", name="prices.file"
    )
    month: str = option("", text, "List this month, e.g. 2026-10, in local time.", metavar="YYYY-MM", group="List")
    team: str = option("", text, "Only this team: an account, else a namespace.", metavar="NAME", group="List")
    by: str = option(
        "team", choice(*GROUPS), "team, account, namespace, user, job, node or model.", metavar="GROUP", group="List"
    )
    format: str = option("csv", choice("csv", "json"), "csv or json.", metavar="FORMAT", group="List")


def run(config: AccountingConfig) -> int:
    logs.configure(LogConfig())
    month = _month(config.month) if config.month else None
    if month is None and not config.nodes:
        raise ConfigError("accounting: expected --nodes, to collect, or --month, to list")
    try:
        database = Database(config.state_dir / DATABASE)
    except sqlite3.Error as error:
        raise ConfigError(f"--state.dir {config.state_dir}: {error}") from None
    try:
        return _list(config, database, *month) if month else _collect(config, database)
    finally:
        database.close()


def _collect(config: AccountingConfig, database: Database) -> int:
    access = NodeAccess(config.username, _password(config.password_file), str(config.ca_file or ""))
    failing: dict[str, str] = {}
    checked = float(unix_time()) - _CHECK_EVERY
    while True:
        now = float(unix_time())
        errors = dict(collect(database, tuple(expand(config.nodes)), access.ask, lambda: float(unix_time())))
        for target, error in errors.items():
            if target not in failing:
                log.warning("%s is not read: %s", target, error)
        differences = 0
        if now - checked >= _CHECK_EVERY or not config.interval:
            differences, checked = _compare(config, database, checked, now), now
            database.forget(now - config.retention)
        failing = errors
        if not config.interval:
            return 1 if errors or differences else 0
        threading.Event().wait(config.interval)


def _compare(config: AccountingConfig, database: Database, since: float, now: float) -> int:
    """Compare the jobs that ended since the last check with the scheduler's record; return how many differ."""
    if not config.sacct:
        return 0
    try:
        ended = Sacct(config.sacct).ended(since - _SETTLED, now - _SETTLED)
    except SacctError as error:
        log.warning("not compared with the scheduler: %s", error)
        return 0
    jobs = [(job.raw_id, job.start, job.end, job.gpus) for job in ended if job.start and job.end and job.gpus]
    found = database.compare(jobs, TOLERANCE)
    for each in found:
        log.warning(
            "job %s: %.2f GPU hours by the scheduler, %.2f by the nodes",
            *(each.job, each.scheduler / 3600, each.nodes / 3600),
        )
    return len(found)


def _list(config: AccountingConfig, database: Database, since: float, until: float) -> int:
    """Print a row for each group, with the days that have data."""
    prices = read_prices(config.prices_file) if config.prices_file else Prices("", ())
    costs = database.costs(config.by, since, until, prices, config.team)
    days, covered = round((until - since) / 86400), database.hours_covered(since, until) / 24
    rows = [_row(each, costs[each.name], prices) for each in database.totals(config.by, since, until, config.team)]
    head = {"month": config.month, "days": days, "days_with_data": round(covered, 2), "currency": prices.currency}
    if config.format == "json":
        sys.stdout.write(f"{json.dumps({**head, 'rows': rows}, indent=2)}\n")
        return 0
    print_error(f"{config.month}: data for {covered:.1f} of {days} days")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((config.by, *_COLUMNS))
    writer.writerows(row.values() for row in rows)
    return 0


_COLUMNS = (
    *("gpu_hours", "used_hours", "wasted_hours", "unobserved_hours", "kwh", "allocations", "cost", "unpriced_hours"),
    *("electricity_cost", "kg_co2"),
)


def _row(total: Total, cost: Cost, prices: Prices) -> Mapping[str, str | float]:
    wasted, kwh = sum(total.states.get(state, 0.0) for state in LOST), total.joules / 3.6e6
    hours = (total.seconds, total.used, wasted, total.states.get("unobserved", 0.0))
    electricity, co2 = kwh * prices.electricity_per_kwh, kwh * prices.grams_co2_per_kwh / 1000
    numbers = (*(each / 3600 for each in hours), kwh, total.allocations, cost.amount, cost.unpriced_hours)
    values = (*numbers, electricity, co2)
    return {"name": total.name, **{name: round(each, 3) for name, each in zip(_COLUMNS, values, strict=True)}}


def _month(value: str) -> tuple[float, float]:
    """Return the begin of a month and of the next one, Unix seconds. Raises ConfigError."""
    try:
        begin = datetime.strptime(value, "%Y-%m")  # noqa: DTZ007 - the site's own time
        end = begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
        return begin.timestamp(), end.timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(f"--month: expected a month such as 2026-10, got {value!r}") from None


def _password(file: Path | None) -> str:
    try:
        return site_file.read(file, _SECRET_BYTES).strip() if file else ""
    except site_file.SiteFileError as error:
        raise ConfigError(f"--password-file {file}: {error}") from None
