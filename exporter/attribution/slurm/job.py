"""One line of `scontrol -o -d show job`, and Slurm's ways of writing host lists, index lists and durations."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class NodeGres(NamedTuple):
    """What a job holds on some nodes. `indices` are places in those nodes' gres.conf, not device numbers."""

    nodes: frozenset[str]
    name: str
    """`gpu`, `shard` or `mps`."""
    amount: int
    """GPUs, or parts of GPUs (shards, MPS percent)."""
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A job as slurmctld knows it; empty where it says `(null)` or nothing."""

    id: str
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    qos: str = ""
    array_job: str = ""
    array_task: str = ""
    state: str = ""
    time_limit_seconds: float | None = None
    start_time: float | None = None
    gres: tuple[NodeGres, ...] = ()

    def held_on(self, nodes: frozenset[str]) -> tuple[NodeGres, ...]:
        """What it holds on the node that goes by one of `nodes`; a job of one node needs no name to match."""
        everywhere = frozenset[str]().union(*(gres.nodes for gres in self.gres))
        if len(everywhere) == 1:
            return self.gres
        return tuple(gres for gres in self.gres if gres.nodes & nodes)


_HEAD = re.compile(
    r"JobId=(?P<id>[0-9]+)(?: ArrayJobId=(?P<array_job>[0-9]+))?(?: ArrayTaskId=(?P<array_task>[0-9]+))?"
    r"(?: HetJobId=[0-9]+)?(?: HetJobOffset=[0-9]+)?(?: HetJobIdSet=\S+)? JobName=(?P<rest>.*)"
)
_USER = re.compile(r" UserId=(?P<user>[^ ()=]+)\([0-9]+\) GroupId=")
_GROUP = re.compile(r" Nodes=(?P<nodes>\S+) CPU_IDs=\S* Mem=\S* GRES=(?P<gres>\S*)")
_GRES = re.compile(r"(?P<name>gpu|shard|mps)(?::[^:(),]+)?:(?P<count>[0-9]+)\(IDX:(?P<indices>[0-9,-]*)\)")
_HOST = re.compile(r"([^\[\],]*)(?:\[([0-9,-]+)\])?([^\[\],]*)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MANY = 65536
"""No cluster or node has more; a longer range is taken for nonsense."""


def parse_job(line: str) -> Job | None:
    """Understand one line; None where it is not a job's.

    The job's name is the user's own text and may look like fields: of a repeated field the last one before
    `Command=` (where the user's text begins again) is Slurm's.
    """
    head = _HEAD.match(line.split(" Command=", 1)[0])
    if not head:
        return None
    rest = head["rest"]
    users = list(_USER.finditer(rest))
    if not users:
        return None
    return Job(
        id=head["id"],
        array_job=head["array_job"] or "",
        array_task=head["array_task"] or "",
        name=rest[: users[-1].start()],
        user=users[-1]["user"],
        account=_value(rest, "Account"),
        partition=_value(rest, "Partition"),
        qos=_value(rest, "QOS"),
        state=_value(rest, "JobState"),
        time_limit_seconds=duration(_value(rest, "TimeLimit")),
        start_time=_timestamp(_value(rest, "StartTime")),
        gres=tuple(_gres(rest[users[-1].end() :])),
    )


def _value(text: str, key: str) -> str:
    values = re.findall(rf" {key}=(\S*)", text)
    return values[-1] if values and values[-1] not in ("(null)", "N/A") else ""


def _gres(text: str) -> Iterator[NodeGres]:
    for group in _GROUP.finditer(text):
        nodes = frozenset(hosts(group["nodes"]))
        for found in _GRES.finditer(group["gres"]):
            yield NodeGres(nodes, found["name"], int(found["count"]), indices(found["indices"]))


def indices(text: str) -> tuple[int, ...]:
    """`0-1,3` as numbers."""
    return tuple(int(number) for number in _numbers(text))


def hosts(text: str) -> tuple[str, ...]:
    """`n[01-03],gpu7` as names; zeros in front are kept."""
    names: list[str] = []
    for match in _HOST.finditer(text):
        before, middle, after = match[1], match[2], match[3]
        if middle:
            names += [f"{before}{number}{after}" for number in _numbers(middle)]
        elif before or after:
            names.append(before + after)
    return tuple(names)


def _numbers(text: str) -> Iterator[str]:
    for match in _RANGE.finditer(text):
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) < _MANY:
            yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def duration(text: str) -> float | None:
    """Seconds of `[days-]hours:minutes:seconds`; None for UNLIMITED and the like."""
    match = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+):([0-9]+):([0-9]+)", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _timestamp(text: str) -> float | None:
    """Unix seconds of scontrol's local time; None for `Unknown`."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
