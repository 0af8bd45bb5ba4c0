"""Asking slurmctld for one job: by JSON where scontrol has it, else by text that the job's user cannot forge."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from exporter.attribution.background_source import SourceError
from exporter.attribution.slurm.job import Job, NodeGres, hosts, node_gres, parse_job, part_name
from exporter.core.clock import UnixTime
from exporter.host import program
from exporter.host.text import bounded, count, lines

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

    def _show(self, job: str) -> program.CompletedProgram:
        answer = self._run(self._command, "-o", "-d", "show", "job", job)
        if answer.status and not answer.cut and _UNKNOWN not in answer.errors:
            message = answer.errors.decode("utf-8", "replace").strip()[:200]
            raise SourceError(f"{self._command}: {message or answer.status}")
        return answer

    def _run(self, *command: str) -> program.CompletedProgram:
        try:
            return program.run(command, self._timeout, MAX_BYTES)
        except TimeoutError:
            raise SourceError(f"{command[0]}: no answer within {self._timeout:g} s") from None
        except OSError as error:
            raise SourceError(f"{command[0]}: {error}") from error


def _known(value: str) -> str:
    return "" if value in ("(null)", "N/A") else value
