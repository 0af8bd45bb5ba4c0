"""One round on Slurm's controller: which jobs have ended, and for each of them a summary, made once.

Ended jobs come from the spool that EpilogSlurmctld writes, and from slurmdbd what that missed. What cannot be asked now
(Prometheus, slurmdbd) is asked again in a later round, less and less often; nothing is lost while it is away.
"""

from __future__ import annotations

import logging
import os
import pwd
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from exporter.host.text import exists, make_directory, new_file
from exporter.tools.report import formats, words
from exporter.tools.report.accounting.sacct import AccountedJob, SacctError
from exporter.tools.report.client import NoDataError, NoMetricsError, RefusedError, ReportError, SeveralError, SlowError
from exporter.tools.report.model import JobReport
from exporter.tools.report.options import SummariesConfig
from exporter.tools.report.summaries import jobstats
from exporter.tools.report.summaries.jobstats import CommentError
from exporter.tools.report.summaries.store import MADE, NO_DATA, NO_GPUS, Store, Waiting
from exporter.tools.report.summary import MARGIN_SECONDS, JobAccounts, Report, Summary, summary

log = logging.getLogger(__name__)

_BATCH = 50
_SPOOLED = 20_000
"""Files of the spool read in one round."""
_FIRST_PAUSE, _LONGEST_PAUSE = 60.0, 900.0
_TRIES_WITHOUT_DATA = 3
_OF_ONE_JOB = (RefusedError, SlowError, SeveralError)
"""Errors that are raised also when one job is too large for Prometheus, as of weeks on hundreds of GPUs, or whose id
another cluster there has too."""
_MAX_LAG_SECONDS = 3600.0
"""Longest wait for slurmdbd to see the job's end: slurmctld has it in a queue, and sends it late."""
_SCAN_EVERY = _SCAN_OVERLAP = 600.0
_UNKNOWN_SPAN = 2 * 86400.0
"""Range for a job of which slurmdbd does not say when it began."""


class Accounts(JobAccounts, Protocol):
    def ended(self, since: float, until: float) -> Sequence[AccountedJob]: ...


@dataclass(slots=True)
class Outcome:
    made: int = 0
    skipped: int = 0
    postponed: int = 0
    errors: dict[str, None] = field(default_factory=dict[str, None])
    """Errors without repeats, in the order they came."""


@dataclass(frozen=True, slots=True)
class Services:
    """Services of a round. Without `accounts` there is no slurmdbd; `name` then gives a job's name."""

    accounts: Accounts | None
    report: Report
    write: Callable[[str, str, str], None]
    """Puts the comment of the job that users call so into slurmdbd, or its text in words; raises CommentError."""
    name: Callable[[str], str]
    """Name by which users call the job with this raw id."""
    measured: Callable[[], bool]
    """Return whether Prometheus has metrics of the exporter now; raises ReportError."""


class Worker:
    """Does rounds."""

    def __init__(
        self, config: SummariesConfig, store: Store, services: Services, clock: Callable[[], float] = time.time
    ) -> None:
        self._config = config
        self._spool, self._hints = config.state_dir / "ended", config.state_dir / "hints"
        self._store = store
        self._services = services
        self._clock = clock
        self._made: list[Summary] = []

    def round(self) -> Outcome:
        """Works for the budget at most; what is left is for the next."""
        outcome = Outcome()
        began = self._clock()
        with _noting(self._spool, outcome):
            self._take_spool()
        self._scan_jobs(began, outcome)
        while self._clock() - began < self._config.budget:
            batch = self._store.waiting(self._clock(), _BATCH)
            if not batch or not self._work(batch, began, outcome):
                break
        self._store.forget(began - self._config.retention)
        with _noting(self._hints, outcome):
            update_hints(self._hints, self._made)
        return outcome

    def _take_spool(self) -> None:
        """Move jobs into the store first, then out of the spool: a round that is killed between them repeats itself."""
        found = list(self._spooled_files())
        self._store.ended(found, self._config.settle)
        for job, _ in found:
            (self._spool / job).unlink(missing_ok=True)

    def _spooled_files(self) -> Iterator[tuple[str, float]]:
        with os.scandir(self._spool) as entries:
            for count, entry in enumerate(entries):
                if count >= _SPOOLED:
                    return
                if entry.name.isascii() and entry.name.isdecimal() and entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False).st_mtime

    def _scan_jobs(self, now: float, outcome: Outcome) -> None:
        """Jobs whose end the hook did not note: slurmctld was killed, the disk was full, the hook not yet there."""
        last = self._store.timestamp("scan")
        if self._services.accounts is None or (last is not None and now - last < _SCAN_EVERY):
            return
        since = now - self._config.look_back if last is None else last - _SCAN_OVERLAP
        try:
            missed = self._services.accounts.ended(since, now)
        except SacctError as error:
            outcome.errors[str(error)] = None
            return
        self._store.ended([(job.raw_id, job.end or now) for job in missed if job.allocated_gpus], self._config.settle)
        self._store.set_timestamp("scan", now)

    def _work(self, batch: Sequence[Waiting], began: float, outcome: Outcome) -> bool:
        """Return whether to go on: not once somebody who is needed for all of them is away."""
        known: Mapping[str, AccountedJob] = {}
        if self._services.accounts is not None:
            try:
                known = self._services.accounts.jobs([each.job for each in batch])
            except SacctError as error:
                return self._postpone_batch(batch, str(error), outcome)
        refused = 0
        for place, each in enumerate(batch):
            if self._clock() - began >= self._config.budget:
                return False
            try:
                self._summarize_job(each, known.get(each.job), outcome)
            except CommentError as error:
                self._postpone_batch([each], str(error), outcome)
            except ReportError as error:
                self._postpone_batch([each], str(error), outcome)
                refused += not isinstance(error, SeveralError)
                if refused > 1 or not isinstance(error, _OF_ONE_JOB):
                    outcome.postponed += len(batch) - place - 1  # as they are: next time they come before this one
                    return False
        return True

    def _postpone_batch(self, batch: Sequence[Waiting], why: str, outcome: Outcome) -> bool:
        outcome.errors[why] = None
        for each in batch:
            self._try_later(each, outcome)
        return False

    def _try_later(self, each: Waiting, outcome: Outcome) -> None:
        self._note_attempt(each)
        outcome.postponed += 1

    def _note_attempt(self, each: Waiting) -> None:
        """Noted before the job is looked at, too: one at which this process is killed must not be the first again."""
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(each.tries, 10))
        self._store.later(each.job, self._clock() + pause, each.tries + 1)

    def _summarize_job(self, each: Waiting, job: AccountedJob | None, outcome: Outcome) -> None:
        now = self._clock()
        if self._services.accounts is not None and not (job and job.end) and now - each.ended < _MAX_LAG_SECONDS:
            self._try_later(each, outcome)
            return
        if job is not None and not job.allocated_gpus:
            self._store.done(each.job, NO_GPUS, now)
            outcome.skipped += 1
            return
        until = min(now, each.ended + MARGIN_SECONDS)
        # One that was requeued may have begun anew since: where it was before, slurmdbd does not say.
        back = until - job.start + MARGIN_SECONDS if job and job.start and job.start < until else _UNKNOWN_SPAN
        self._note_attempt(each)
        report = self._reported(each.job, back, until)
        if report is None:
            if each.tries + 1 < _TRIES_WITHOUT_DATA and job is not None:
                self._try_later(each, outcome)
                return
            self._store.done(each.job, NO_DATA if job else NO_GPUS, now)
            outcome.skipped += 1
            return
        name = job.name if job else self._services.name(each.job)
        if job and self._config.comment != "none":
            plain = formats.short(report).strip()
            comment = jobstats.encode(report, job) if self._config.comment == "jobstats" else plain
            self._services.write(name, comment, plain)
        user = job.user if job else report.name.user
        made = summary(name, report, job)
        self._store.done(each.job, MADE, now, name=name, user=user, summary=made)
        self._made.append(made)
        outcome.made += 1

    def _reported(self, job: str, back: float, until: float) -> JobReport | None:
        """None where nothing is known of it: also where it ended before this Prometheus had any metrics."""
        try:
            return self._services.report(job, back, until)
        except SeveralError:
            raise
        except NoDataError:
            return None
        except NoMetricsError:
            if not self._services.measured():
                raise
            return None


@contextmanager
def _noting(folder: Path, outcome: Outcome) -> Generator[None, None, None]:
    """Go on without the folder where it cannot be read or written."""
    try:
        yield
    except OSError as error:
        outcome.errors[f"{folder}: {error.strerror or error}"] = None


_MAX_NAMES = 50
_LONGEST_NAME = 200
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def uid_of(user: str) -> int | None:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def update_hints(folder: Path, summaries: Iterable[Summary], uid: Callable[[str], int | None] = uid_of) -> None:
    """Write the hints of summaries in the order their jobs ended: the last one of a name counts. Raises OSError."""
    by_user: dict[str, dict[str, str]] = {}
    for each in summaries:
        if each["job_name"]:
            by_user.setdefault(each["user"], {})[_first_line(each["job_name"])[:_LONGEST_NAME]] = _efficiency_hint(each)
    for user, hints in by_user.items():
        number = uid(user)
        if number is not None:
            _rewrite_file(folder / str(number), hints)


def _efficiency_hint(summary: Summary) -> str:
    """Empty where the job asked for nothing that was much too much."""
    if not summary["next_time"]:
        return ""
    used = words.percent(summary["utilization"])
    return _first_line(
        f"the last such job, {summary['job']}, used {used} of its GPUs; next time {' '.join(summary['next_time'])}"
    )


def _rewrite_file(file: Path, hints: Mapping[str, str]) -> None:
    text = file.read_text("utf-8", "replace") if exists(file) else ""
    known = dict(line.split("\t", 1) for line in text.split("\n") if "\t" in line)
    for name, hint in hints.items():
        known.pop(name, None)  # to the end: the oldest are forgotten first
        if hint:
            known[name] = hint
    lines = [f"{name}\t{hint}\n" for name, hint in known.items()][-_MAX_NAMES:]
    new = file.with_name(f".{file.name}.new")
    make_directory(file.parent)
    new.unlink(missing_ok=True)
    with os.fdopen(new_file(new), "w", encoding="utf-8", errors="replace") as content:
        content.write("".join(lines))
    new.replace(file)


def _first_line(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text)
