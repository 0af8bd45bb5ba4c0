"""A job in the answer of `scontrol --json -d show job`: Slurm 23.02 and newer, over all versions of its data parser."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from exporter.attribution.slurm.job import Job, NodeGres, hosts, node_gres
from exporter.core.clock import UnixTime
from exporter.host.text import bounded, count

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
