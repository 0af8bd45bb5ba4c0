"""Questions to slurmctld about each new job, once, in a thread of their own.

A new job costs slurmctld one RPC of 3 to 6 KB (`--local`: none about the federation; squeue sends every job). Without
JSON (22.05), `-d` also fetches the table of all nodes, so it is used only for GPUs that no source on the node reports.
A dead slurmctld lets scontrol hang for 18 s, and further questions wait longer each time. No timeout ends it before: a
slow slurmctld would be asked twice.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import cast

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import Document, items, parts, text
from exporter.attribution.owner import SourceHealth
from exporter.attribution.slurm.job import Job, NodeGres, hosts, node_gres, parse_job, part_name
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.core.threads import Threads
from exporter.host import program
from exporter.host.text import bounded, count, lines

log = logging.getLogger(__name__)

UNKNOWN_SECONDS = 60.0
"""Time between questions about a job that slurmctld does not know, or hides (PrivateData)."""
RETURN_SECONDS = 10.0
"""Absence after which a job was requeued: its last answer, with GPUs and start, is dropped."""
FORGET_SECONDS = 600.0
_MAX_PAUSE_SECONDS = 60.0


class JobCache:
    """Jobs of this node, each asked about once. `jobs` is replaced, never changed. Methods do not wait."""

    def __init__(
        self,
        ask: Callable[[str], Job | None],
        *,
        name: str = "scontrol",
        pause: float = 5.0,
        delay: Callable[[str], float] = lambda _: 0.0,
        clock: MonotonicClock = monotonic_time,
    ) -> None:
        """Ask about a job `delay` seconds after it is first seen, in a thread of that name."""
        self._ask = ask
        self._name = name
        self._pause = pause
        self._delay = delay
        self._clock = clock
        self._wanted: dict[str, MonotonicTime] = {}
        """Open questions, with the time of the first attempt."""
        self._retry: dict[str, MonotonicTime] = {}
        self._first: dict[str, MonotonicTime] = {}
        self._seen: dict[str, MonotonicTime] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._success = True
        self.error = ""
        self.jobs: Mapping[str, Job] = {}

    def start(self, threads: Threads | None = None) -> None:
        (threads or Threads()).start(self._name, self._run)

    def stop(self) -> None:
        """Ask the thread to end; one that waits for scontrol is abandoned."""
        self._stopped.set()
        self._woken.set()

    def want(self, jobs: Collection[str]) -> None:
        """Note the jobs that are on this node now: new ones will be asked about."""
        now = self._clock()
        with self._lock:
            back = {job for job in jobs if now - self._seen.get(job, now) > RETURN_SECONDS}
            self.jobs = {job: known for job, known in self.jobs.items() if job not in back} if back else self.jobs
            self._first = dict.fromkeys(jobs, now) | self._first | dict.fromkeys(back, now)
            self._seen |= dict.fromkeys(jobs, now)
            fresh = [job for job in jobs if job not in self._wanted and job not in self.jobs]
            ready = [job for job in fresh if self._retry.get(job, NEVER) <= now]
            due = [job for job in ready if now - self._first[job] >= self._delay(job)]
            self._wanted |= dict.fromkeys(due, now)
        if due:
            self._woken.set()

    def pending(self, job: str) -> bool:
        """Return whether an answer about `job` is still to come."""
        return job in self._wanted

    def unknown(self) -> frozenset[str]:
        """Return jobs of this node that slurmctld does not know: ended long ago, or hidden from this user."""
        with self._lock:
            return frozenset(self._retry.keys() & self._seen.keys())

    def health(self, now: MonotonicTime) -> SourceHealth:
        """Return the health. Its age is that of the oldest open question."""
        with self._lock:
            oldest = min(self._wanted.values(), default=now)
        return SourceHealth("slurm_scontrol", self._success, max(0.0, now - oldest))

    def answer_next(self) -> bool:
        """Ask about one job in the caller's thread. Returns whether slurmctld answered, or nothing was asked."""
        with self._lock:
            job = next(iter(self._wanted), None)
        if job is None:
            return True
        try:
            found = self._ask(job)
        except Exception as error:  # whatever is wrong with one job, the others are asked about
            if not isinstance(error, SourceError) and not self.error:
                log.exception("job %s cannot be asked about", job)
            self._success, self.error = False, str(error) or type(error).__name__
            with self._lock:
                if job in self._wanted:  # to the end: one bad job must not keep the others waiting
                    self._wanted[job] = self._wanted.pop(job)
            return False
        self._success, self.error = True, ""
        now = self._clock()
        with self._lock:
            gone = {old for old, seen in self._seen.items() if now - seen > FORGET_SECONDS}
            answered = {job: found} if found else {}
            self.jobs = {old: known for old, known in self.jobs.items() if old not in gone} | answered
            self._retry = {old: at for old, at in self._retry.items() if old not in gone and old not in answered}
            self._seen = {old: at for old, at in self._seen.items() if old not in gone}
            self._first = {old: at for old, at in self._first.items() if old not in gone}
            if not found:
                self._retry[job] = now + UNKNOWN_SECONDS
            self._wanted.pop(job, None)
        return True

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            self._woken.clear()
            answered = self.answer_next()
            failures = 0 if answered else failures + 1
            with self._lock:  # questions about jobs that have left are not needed any more
                now = self._clock()
                self._wanted = {
                    job: at for job, at in self._wanted.items() if now - self._seen.get(job, at) <= UNKNOWN_SECONDS
                }
            if failures:
                self._stopped.wait(min(_MAX_PAUSE_SECONDS, self._pause * 2 ** min(failures - 1, 10)))
            elif not self._wanted and not self._stopped.is_set():
                self._woken.wait()


_LONGEST = 1 << 16
"""Characters of a list of nodes."""


def parse_jobs(answer: bytes) -> Mapping[str, Job]:
    """Parse jobs by raw id. Raises ValueError if the text is not such an answer."""
    try:
        document = json.loads(answer)
    except RecursionError:
        raise ValueError("nested without end") from None
    fields = cast("Document", document if isinstance(document, dict) else {})
    found = (_parse_fields(each) for each in parts(fields, "jobs"))
    return {job.id: job for job in found if job.id}


def _parse_fields(fields: Document) -> Job:
    limit, start = _field_number(fields, "time_limit"), _field_number(fields, "start_time")
    array, het = _field_number(fields, "array_job_id"), _field_number(fields, "het_job_id")
    node_list, state = text(fields, "nodes", _LONGEST), fields.get("job_state")
    state = state if isinstance(state, str) else next(iter(items(state)), "")
    return Job(
        id=_id_text(_field_number(fields, "job_id")),
        user=text(fields, "user_name"),
        account=text(fields, "account"),
        partition=text(fields, "partition"),
        name=text(fields, "name"),
        qos=text(fields, "qos"),
        array_job=_id_text(array) if array else "",
        array_task=_id_text(_field_number(fields, "array_task_id")) if array else "",
        het_job=_id_text(het) if het else "",
        het_offset=_id_text(_field_number(fields, "het_job_offset")) if het else "",
        state=bounded(state) if isinstance(state, str) else "",
        time_limit_seconds=limit * 60.0 if limit else None,
        start_time=UnixTime(float(start)) if start else None,
        node_count=_field_number(fields, "node_count") or len(hosts(node_list)) or None,
        task_count=_field_number(fields, "tasks") or None,
        restarts=_field_number(fields, "restart_cnt"),
        gres=_parse_gres(fields, hosts(node_list)),
        node_list=node_list,
    )


def _parse_gres(fields: Document, nodes: tuple[str, ...]) -> tuple[NodeGres, ...] | None:
    """Return the GRES of each node; None if some are missing although GPUs are allocated."""
    gres = [each for each in items(fields.get("gres_detail")) if isinstance(each, str)]
    if not gres:
        return None if "gres/" in text(fields, "tres_alloc_str") else ()
    if len(gres) != len(nodes):
        return None
    return tuple(
        each for node, written in zip(nodes, gres, strict=True) for each in node_gres(frozenset({node}), written)
    )


def _field_number(fields: Document, key: str) -> int | None:
    """Return a plain number, or that of `{"set": true, "infinite": false, "number": 7}` as newer versions write it."""
    value = fields.get(key)
    if isinstance(value, dict):
        inner = cast("Document", value)
        value = None if inner.get("infinite") or inner.get("set") is False else inner.get("number")
    return count(value)


def _id_text(number: int | None) -> str:
    return "" if number is None else str(number)


TIMEOUT_SECONDS = 5.0
JOB_TIMEOUT_SECONDS = 25.0
"""Longer than scontrol itself waits for slurmctld with the default MessageTimeout of 10 s."""
MAX_BYTES = 4 << 20
"""Limit of an answer: an array has some thousand elements."""
_SQUEUE = "%A|%u|%a|%P|%q|%T"
_SQUEUE_FIELDS = 6
_UNKNOWN = b"Invalid job id"


def run(*command: str, timeout: float = TIMEOUT_SECONDS) -> program.CompletedProgram:
    """Run a command of Slurm. Raises SourceError."""
    try:
        return program.run(command, timeout, MAX_BYTES)
    except TimeoutError:
        raise SourceError(f"{command[0]}: no answer within {timeout:g} s") from None
    except OSError as error:
        raise SourceError(f"{command[0]}: {error.strerror or error}") from error


class ShowJob:
    """Questions about one job, by JSON, or by text that its user cannot forge, without GPUs. Raises SourceError."""

    def __init__(self, command: str, timeout: float = JOB_TIMEOUT_SECONDS) -> None:
        self._command = command
        self._timeout = timeout
        self._json = True
        """False once scontrol has shown that it is too old, or was built without JSON."""

    def __call__(self, job: str) -> Job | None:
        if not self._json:
            return self._by_text(job)
        answer = self._run(self._command, "--local", "--json", "-d", "show", "job", job)
        if _UNKNOWN in answer.errors:
            return None
        try:
            known = parse_jobs(answer.output)
        except ValueError as error:
            by_text = self._by_text(job)  # raises where slurmctld is away: then JSON is tried again
            log.info("%s --json is not to be had: %s", self._command, error)
            self._json = answer.cut
            return by_text
        return known.get(job) if known else self._by_text(job)  # JSON is empty also where slurmctld is away

    def with_gpus(self, job: str) -> Job | None:
        """Ask for the GPUs too, by text: it fetches the table of all nodes."""
        return self._by_text(job, "-d")

    def _by_text(self, job: str, *options: str) -> Job | None:
        """Ask by text. The id of a first array element or component is also that of the whole: all are listed."""
        answer = self._show_job(job, *options)
        shown = answer.output.decode("utf-8", "replace")
        found = parse_job(shown)
        if found is None and (name := part_name(shown, job)):
            found = parse_job(self._show_job(name, *options).output.decode("utf-8", "replace"))
        if found is not None and found.id == job:
            return found
        return self._by_squeue(job) if shown.strip() else None

    def _by_squeue(self, job: str) -> Job | None:
        """Ask for fields without text of the user. They have no allocation."""
        log.warning("job %s: scontrol's text can be read in two ways, asking squeue", job)
        folder, slash, name = self._command.rpartition("/")
        if name != "scontrol":
            return None
        answer = self._run(f"{folder}{slash}squeue", "-h", "-j", job, "-o", _SQUEUE)
        for line in lines(answer.output.decode("utf-8", "replace")):
            fields = [bounded(field) for field in line.split("|")]
            if len(fields) == _SQUEUE_FIELDS and fields[0] == job:
                _, user, account, partition, qos, state = fields
                return Job(
                    job,
                    _known_text(user),
                    _known_text(account),
                    partition,
                    qos=_known_text(qos),
                    state=state,
                    gres=None,
                )
        return None

    def _show_job(self, job: str, *options: str) -> program.CompletedProgram:
        answer = self._run(self._command, "--local", "-o", *options, "show", "job", job)
        if answer.status and not answer.cut and _UNKNOWN not in answer.errors:
            message = answer.errors.decode("utf-8", "replace").strip()[:200]
            raise SourceError(f"{self._command}: {message or answer.status}")
        return answer

    def _run(self, *command: str) -> program.CompletedProgram:
        return run(*command, timeout=self._timeout)


def _known_text(value: str) -> str:
    return "" if value in ("(null)", "N/A") else value
