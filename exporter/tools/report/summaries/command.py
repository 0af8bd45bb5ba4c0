"""`gpu-exporter summaries`: one round of the worker on Slurm's controller, or a list of what it made."""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.scontrol import ShowJob
from exporter.config import logs
from exporter.config.command_line import Page
from exporter.config.logs import LogConfig
from exporter.config.option import ConfigError
from exporter.core.clock import unix_time
from exporter.host.text import make_directory, new_file
from exporter.tools.report import promql, terminal
from exporter.tools.report.accounting.database import Database
from exporter.tools.report.accounting.sacct import Sacct
from exporter.tools.report.client import Client, NoDataError
from exporter.tools.report.command import access
from exporter.tools.report.document import Document
from exporter.tools.report.job import slurm_job
from exporter.tools.report.model import JobReport, Name, Progress, Span
from exporter.tools.report.options import SummariesConfig
from exporter.tools.report.summaries.jobstats import Commenter
from exporter.tools.report.summaries.store import WAITING, Store
from exporter.tools.report.summaries.worker import Services, Worker
from exporter.tools.report.summary import Report, table
from exporter.tools.report.terminal import paint


def exact(path: Path | None, report: Report, cluster: str = "") -> Report:
    """Return the report with the hours that the accounting's database has of the cluster; as it is without one."""
    if path is None:
        return report

    def corrected(job: str, back: float, until: float) -> JobReport:
        try:
            with contextlib.closing(Database(path, cluster)) as database:
                total = database.job(job, until - back, until)
        except sqlite3.Error as error:
            raise ConfigError(f"--accounting.database {path}: {error}") from None
        hours = {state: seconds / 3600 for state, seconds in total.states.items() if seconds}
        try:
            found = report(job, back, until)
        except NoDataError:
            if not hours:
                raise
            name = Name(f"Slurm job {job}", f"slurm:{job}", user=total.user, account=total.account)
            span = Span(total.start, total.end, total.end, truncated=False)
            found = JobReport(name, span, hours, (), (), Progress(), None)
        return replace(found, hours=hours) if hours else found

    return corrected


log = logging.getLogger(__name__)

_STORE, _LOCK = "summaries.sqlite", "lock"
_LOWER_CASE, _LEARNED_SECONDS = "comments are lower case", 86400.0
"""Learned once a day, not in each round: Slurm may be upgraded."""

PAGE = Page(
    "gpu-exporter summaries",
    "Give each ended Slurm job its summary, once: as AdminComment and in a file. One round; a timer repeats it.",
    """\
exit status:
  0 done   2 wrong option
  1 something did not answer: its jobs are tried again in a later round

examples:
  gpu-exporter summaries --prometheus.url http://prometheus:9090
  gpu-exporter summaries --list --user alice --since 7d
""",
)


def run(config: SummariesConfig) -> int:
    folder = config.state_dir
    logs.configure(LogConfig())
    try:
        if not config.list:
            folder.mkdir(parents=True, exist_ok=True)
            make_directory(folder / "ended")
            for name in (_STORE, _LOCK):
                with contextlib.suppress(FileExistsError):
                    os.close(new_file(folder / name))
        store = Store(folder / _STORE, reads=config.list)
    except (OSError, sqlite3.Error) as error:
        raise ConfigError(f"--state.dir {folder}: {getattr(error, 'strerror', None) or error}") from None
    try:
        return _show_summaries(config, store) if config.list else _run_worker(config, store, folder)
    except sqlite3.DatabaseError as error:
        raise ConfigError(f"--state.dir {folder}: {error}") from None
    finally:
        store.close()


def _run_worker(config: SummariesConfig, store: Store, folder: Path) -> int:
    try:  # one who may read the folder, for --list, need not be one who may write to it
        lock = (folder / _LOCK).open("w")
    except OSError as error:
        raise ConfigError(f"--state.dir {folder}: lock: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("another round is under way")
            return 0
        now = float(unix_time())
        exact = False if now - (store.timestamp(_LOWER_CASE) or 0.0) < _LEARNED_SECONDS else None
        commands = config.slurm
        commenter = Commenter(commands.sacctmgr, commands.sacct, exact=exact, existing=config.comment_existing)
        outcome = _make_worker(config, store, commenter).round()
        if exact is None and commenter.exact is False:
            store.set_timestamp(_LOWER_CASE, now)
    for problem in outcome.errors:
        log.warning("%s", problem)
    counts = store.counts()
    log.info(
        "%d summaries made, %d jobs without GPUs or data, %d to be tried again, %d waiting",
        outcome.made, outcome.skipped, outcome.postponed, counts.get(WAITING, 0),
    )  # fmt: skip
    return 1 if outcome.errors else 0


def _make_worker(config: SummariesConfig, store: Store, commenter: Commenter) -> Worker:
    client = Client(access(config.prometheus))
    ask = ShowJob(config.slurm.scontrol)

    def name(job: str) -> str:
        try:
            known = ask(job)
        except SourceError:
            known = None
        if known is None:
            return job
        if known.array_task:
            return f"{known.array_job}_{known.array_task}"
        return f"{known.het_job}+{known.het_offset}" if known.het_job else job

    return Worker(
        config,
        store,
        Services(
            accounts=Sacct(config.slurm.sacct) if config.slurm.sacct else None,
            report=exact(config.accounting.database, partial(slurm_job, client, config.cluster), config.cluster),
            write=commenter.write,
            name=name,
            measured=lambda: bool(client.instant(promql.ANY_METRICS, float(unix_time()))),
        ),
    )


def _show_summaries(config: SummariesConfig, store: Store) -> int:
    found = store.summaries(config.user, float(unix_time()) - config.since)
    if config.format == "json":
        sys.stdout.writelines(f"{json.dumps(each)}\n" for each in found)
        return 0
    whose = f" of {config.user}" if config.user else ""
    document = Document(f"Jobs{whose}", (table(found),))
    sys.stdout.write(terminal.render(document, paint(sys.stdout)))
    return 0
