"""Asking slurmctld about a job, once, in a thread of its own.

Costs slurmctld three small RPCs per new job (never squeue, which sends every job of the cluster to every node).
A dead slurmctld makes scontrol hang 18 s, so a time-out ends it and further questions wait, longer each time.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from exporter.attribution.background_source import SourceError
from exporter.attribution.owner import SourceHealth
from exporter.attribution.slurm.job import Job, NodeGres, hosts, node_gres, parse_job, part_name
from exporter.core.clock import NEVER, MonotonicClock, MonotonicTime, UnixTime, monotonic_time
from exporter.core.threads import Threads
from exporter.host import program
from exporter.host.text import bounded, count, lines

log = logging.getLogger(__name__)

UNKNOWN_SECONDS = 60.0
"""A job slurmctld does not know (or hides: PrivateData) is asked about again after this."""
RETURN_SECONDS = 10.0
"""A job that was away for longer was requeued: it may hold other GPUs now."""
FORGET_SECONDS = 600.0
_LONGEST_PAUSE = 60.0


class JobCache:
    """What is known of this node's jobs; asks about each new one once. Neither method waits.

    `jobs` is replaced, never changed in place; a job keeps its entry until long after its last process.
    """

    def __init__(
        self, ask: Callable[[str], Job | None], *, pause: float = 5.0, clock: MonotonicClock = monotonic_time
    ) -> None:
        self._ask = ask
        self._pause = pause
        self._clock = clock
        self._wanted: dict[str, MonotonicTime] = {}
        """Job to when it was first asked about without an answer."""
        self._retry: dict[str, MonotonicTime] = {}
        self._seen: dict[str, MonotonicTime] = {}
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._stopped = False
        self._success = True
        self.error = ""
        self.jobs: Mapping[str, Job] = {}

    def start(self, threads: Threads | None = None) -> None:
        (threads or Threads()).start("scontrol", self._run)

    @property
    def changes(self) -> int:
        """How many jobs it has learned of."""
        return len(self.jobs)

    def stop(self) -> None:
        """Ask the thread to end; one that waits for scontrol is left behind."""
        self._stopped = True
        self._woken.set()

    def want(self, jobs: Collection[str]) -> None:
        """These jobs are on this node now: those not known yet will be asked about."""
        now = self._clock()
        with self._lock:
            back = {job for job in jobs if now - self._seen.get(job, now) > RETURN_SECONDS}
            self._seen |= dict.fromkeys(jobs, now)
            fresh = [job for job in jobs if job not in self._wanted and (job not in self.jobs or job in back)]
            due = [job for job in fresh if self._retry.get(job, NEVER) <= now]
            self._wanted |= dict.fromkeys(due, now)
        if due:
            self._woken.set()

    def pending(self, job: str) -> bool:
        """Whether an answer about `job` is still to come."""
        return job in self._wanted

    def unknown(self) -> frozenset[str]:
        """Jobs of this node that slurmctld reports it does not know: ended long ago, or hidden from this user."""
        with self._lock:
            return frozenset(self._retry.keys() & self._seen.keys())

    def health(self, now: MonotonicTime) -> SourceHealth:
        """The age is that of the oldest question without an answer: with none open, what is known is current."""
        with self._lock:
            oldest = min(self._wanted.values(), default=now)
        return SourceHealth("slurm_scontrol", self._success, max(0.0, now - oldest))

    def answer_next(self) -> bool:
        """Ask about one wanted job now, in the caller's thread; whether slurmctld answered (or nothing was asked)."""
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
            if not found:
                self._retry[job] = now + UNKNOWN_SECONDS
            self._wanted.pop(job, None)
        return True

    def _drop_ended(self) -> None:
        """Questions about jobs that have left meanwhile answer themselves."""
        with self._lock:
            now = self._clock()
            self._wanted = {
                job: at for job, at in self._wanted.items() if now - self._seen.get(job, at) <= UNKNOWN_SECONDS
            }

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            self._woken.clear()
            answered = self.answer_next()
            failures = 0 if answered else failures + 1
            self._drop_ended()
            if failures:
                pause = min(_LONGEST_PAUSE, self._pause * 2 ** min(failures - 1, 10))
                until = monotonic_time() + pause
                while not self._stopped and monotonic_time() < until:
                    self._woken.wait(max(0.0, until - monotonic_time()))
                    self._woken.clear()
            elif not self._wanted and not self._stopped:
                self._woken.wait()


_NOT_SET = 0
_LONGEST = 1 << 16
"""Characters of a list of nodes."""
_Fields = Mapping[str, Any]


def parse_jobs(text: bytes) -> Mapping[str, Job]:
    """Jobs by raw id. Raises ValueError where the text is not such an answer."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("nested without end") from None
    fields = cast("_Fields", document) if isinstance(document, dict) else dict[str, Any]()
    listed = fields.get("jobs")
    if not isinstance(listed, list) or (not listed and fields.get("errors")):
        raise ValueError("no list of jobs")
    found = (_job(cast("_Fields", each)) for each in cast("Sequence[Any]", listed) if isinstance(each, dict))
    return {job.id: job for job in found if job.id}


def _job(fields: _Fields) -> Job:
    limit = _number(fields, "time_limit")
    start = _number(fields, "start_time")
    array = _number(fields, "array_job_id") or _NOT_SET
    het = _number(fields, "het_job_id") or _NOT_SET
    return Job(
        id=_id(_number(fields, "job_id")),
        user=_text(fields, "user_name"),
        account=_text(fields, "account"),
        partition=_text(fields, "partition"),
        name=_text(fields, "name"),
        qos=_text(fields, "qos"),
        array_job=_id(array) if array else "",
        array_task=_id(_number(fields, "array_task_id")) if array else "",
        het_job=_id(het) if het else "",
        het_offset=_id(_number(fields, "het_job_offset")) if het else "",
        state=_state(fields.get("job_state")),
        time_limit_seconds=limit * 60.0 if limit else None,
        start_time=UnixTime(float(start)) if start else None,
        node_count=_number(fields, "node_count") or len(hosts(_text(fields, "nodes", _LONGEST))) or None,
        task_count=_number(fields, "tasks") or None,
        restarts=_number(fields, "restart_cnt"),
        gres=_gres(fields),
        node_list=_text(fields, "nodes", _LONGEST),
    )


def _gres(fields: _Fields) -> tuple[NodeGres, ...] | None:
    """One text a node, in the order of the nodes; None where some are missing although GPUs are allocated."""
    nodes = hosts(_text(fields, "nodes", _LONGEST))
    gres = [each for each in _list(fields.get("gres_detail")) if isinstance(each, str)]
    if not gres:
        return None if "gres/" in _text(fields, "tres_alloc_str") else ()
    if len(gres) != len(nodes):
        return None
    return tuple(_each(nodes, gres))


def _each(nodes: tuple[str, ...], gres: list[str]) -> Iterator[NodeGres]:
    for node, text in zip(nodes, gres, strict=True):
        yield from node_gres(frozenset({node}), text)


def _text(fields: _Fields, key: str, limit: int = 256) -> str:
    value = fields.get(key)
    return bounded(value, limit) if isinstance(value, str) else ""


def _number(fields: _Fields, key: str) -> int | None:
    """A plain number, or `{"set": true, "infinite": false, "number": 7}` as newer versions write it."""
    value = fields.get(key)
    if isinstance(value, dict):
        inner = cast("_Fields", value)
        value = None if inner.get("infinite") or inner.get("set") is False else inner.get("number")
    return count(value)


def _id(number: int | None) -> str:
    return "" if number is None else str(number)


def _state(value: Any) -> str:
    first = value if isinstance(value, str) else next(iter(_list(value)), "")
    return bounded(first) if isinstance(first, str) else ""


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list) else ()


log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 5.0
MAX_BYTES = 4 << 20
"""An array of some thousand elements; a scontrol that reports more is ended."""
_SQUEUE = "%A|%u|%a|%P|%q|%T"
_SQUEUE_FIELDS = 6
_UNKNOWN = b"Invalid job id"


class ShowJob:
    """`show_job(id)` is what slurmctld reports of a job; None where it does not know it. Raises SourceError."""

    def __init__(self, command: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self._command = command
        self._timeout = timeout
        self._json = True
        """Until scontrol shows that it is too old, or was built without."""

    def __call__(self, job: str) -> Job | None:
        if not self._json:
            return self._by_text(job)
        answer = self._run(self._command, "--json", "-d", "show", "job", job)
        if _UNKNOWN in answer.errors:
            return None
        try:
            known = parse_jobs(answer.output)
        except ValueError as error:
            by_text = self._by_text(job)  # raises where slurmctld is away: then JSON is tried again
            log.info("%s --json is not to be had: %s", self._command, error)
            self._json = answer.cut
            return by_text
        found = known.get(job)
        if found is None or found.gres is not None:
            return found
        by_text = self._by_text(job)
        return replace(found, gres=by_text.gres if by_text else None)

    def _by_text(self, job: str) -> Job | None:
        """The id of a first element is also the array's, as that of a first component is the job's: all are listed."""
        answer = self._show(job)
        text = answer.output.decode("utf-8", "replace")
        found = parse_job(text)
        if found is None and (name := part_name(text, job)):
            found = parse_job(self._show(name).output.decode("utf-8", "replace"))
        if found is not None and found.id == job:
            return found
        return self._by_squeue(job) if text.strip() else None

    def _by_squeue(self, job: str) -> Job | None:
        """Who the job is of, without any text that its user wrote; what it holds is not reported."""
        log.warning("job %s: scontrol's text can be read in two ways, asking squeue", job)
        folder, slash, name = self._command.rpartition("/")
        if name != "scontrol":
            return None
        answer = self._run(f"{folder}{slash}squeue", "-h", "-j", job, "-o", _SQUEUE)
        for line in lines(answer.output.decode("utf-8", "replace")):
            fields = [bounded(field) for field in line.split("|")]
            if len(fields) == _SQUEUE_FIELDS and fields[0] == job:
                _, user, account, partition, qos, state = fields
                return Job(job, _known(user), _known(account), partition, qos=_known(qos), state=state, gres=None)
        return None

    def _show(self, job: str) -> program.Finished:
        answer = self._run(self._command, "-o", "-d", "show", "job", job)
        if answer.status and not answer.cut and _UNKNOWN not in answer.errors:
            message = answer.errors.decode("utf-8", "replace").strip()[:200]
            raise SourceError(f"{self._command}: {message or answer.status}")
        return answer

    def _run(self, *command: str) -> program.Finished:
        try:
            return program.run(command, self._timeout, MAX_BYTES)
        except TimeoutError:
            raise SourceError(f"{command[0]}: no answer within {self._timeout:g} s") from None
        except OSError as error:
            raise SourceError(f"{command[0]}: {error}") from error


def _known(value: str) -> str:
    return "" if value in ("(null)", "N/A") else value
