"""A job as Slurm describes it: by text of `scontrol -o -d show job`, or by variables. Slurm's lists and durations.

Variables come from the environment of processes, which the user can write, or from the file of the prolog.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.devices import DeviceName, device_of
from exporter.core.clock import UnixTime
from exporter.core.lookup import Lookup
from exporter.host.text import bounded, natural


class NodeGres(NamedTuple):
    """Allocation of a job on some nodes. `indices` are places in those nodes' gres.conf, not device numbers."""

    nodes: frozenset[str]
    name: str
    """`gpu`, `shard` or `mps`."""
    amount: int
    """GPUs, or parts of GPUs (shards, MPS percent)."""
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Fields are empty where Slurm reports `(null)` or nothing."""

    id: str
    user: str = ""
    account: str = ""
    partition: str = ""
    name: str = ""
    qos: str = ""
    array_job: str = ""
    array_task: str = ""
    het_job: str = ""
    het_offset: str = ""
    """Component of a heterogeneous job, which users know as het_job+het_offset."""
    state: str = ""
    time_limit_seconds: float | None = None
    start_time: UnixTime | None = None
    node_count: int | None = None
    task_count: int | None = None
    restarts: int | None = None
    gres: tuple[NodeGres, ...] | None = ()
    """None if not reported."""
    parts: bool = False
    """True if it requested fractions of GPUs: shards or MPS percent."""
    node_list: str = ""
    """Its nodes as Slurm writes them: `n[01-03],r7`."""

    def runs_on(self, nodes: AbstractSet[str]) -> bool:
        """Return whether its node list has one of `nodes`, or may have: the list may be cut."""
        cut = not self.node_list or len(self.node_list) >= _MANY
        return cut or not nodes.isdisjoint(hosts(self.node_list))

    def allocation_on(self, nodes: frozenset[str]) -> tuple[NodeGres, ...]:
        """Return the allocation on the node with one of these names; a job of one node needs no name."""
        allocated = self.gres or ()
        everywhere = frozenset[str]().union(*(gres.nodes for gres in allocated))
        if len(everywhere) == 1 and (self.node_count or 1) == 1:
            return allocated
        return tuple(gres for gres in allocated if gres.nodes & nodes)


_ID = "[0-9]{1,10}"
_HEAD = re.compile(rf"^JobId=(?P<id>{_ID})(?P<fields>(?: [A-Za-z]+=[^ \n]*){{0,8}}?) JobName=", re.MULTILINE)
"""Fields before the name are Slurm's own. They differ between versions and kinds of jobs."""
_USER = re.compile(r" UserId=(?P<user>[^ ()=\n]+)\([0-9]+\) GroupId=")
_HET_SET = re.compile(r" HetJobIdSet=[0-9,-]+$")
_FREE = re.compile(r" (?:MinCPUsNode|Command)=")
"""First of the fields with text of the user."""
_GROUP = re.compile(r" Nodes=(?P<nodes>\S+) CPU_IDs=\S* Mem=\S* GRES=(?P<gres>\S*)")
_MAY_HAVE_GRES = re.compile(r"gres[:/]| OverSubscribe=(?!OK|YES)")
"""A job with all of its nodes has their GPUs too, without a word of them."""
_PARTS = re.compile(r"gres[:/](?:shard|mps)")
_GRES = re.compile(
    r"(?P<name>gpu|shard|mps)(?::[^:(),]+)?:(?P<count>[0-9]{1,10})"
    r"\((?:IDX:(?P<indices>[0-9,-]*)|(?P<parts>[0-9]{1,10}/[0-9]{1,10}(?:,[0-9]{1,10}/[0-9]{1,10})*))\)"
)
_HOST = re.compile(r"(?:[^\[\],]|\[[0-9,-]*\])+")
_HOST_PART = re.compile(r"([^\[\]]+)|\[([0-9,-]*)\]")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_MANY = 65536
"""Limit of nodes: no cluster has more."""
_MANY_GPUS = 1024
"""Limit of a node's GPUs and their parts."""


def parse_job(text: str) -> Job | None:
    """Parse the record of one job; None for any other text.

    The job's name is the user's text, and may look like fields or like another record. Which of two beginnings is
    Slurm's cannot be known, so a text with two is refused.
    """
    heads, users = list(_HEAD.finditer(text)), list(_USER.finditer(text))
    if len(heads) != 1 or len(users) != 1 or heads[0].start() or users[0].start() < heads[0].end():
        return None
    head, user = heads[0], users[0]
    name = text[head.end() : user.start()]
    if _number_of(head, "HetJobId"):
        name = _HET_SET.sub("", name)  # Slurm 22.05 has it here
    own = _FREE.split(text[user.end() :], maxsplit=1)[0]
    groups = list(_GROUP.finditer(own))
    try:  # Slurm's local time, or `Unknown`
        start = UnixTime(time.mktime(time.strptime(_field_value(own, "StartTime"), "%Y-%m-%dT%H:%M:%S")))
    except (ValueError, OverflowError):
        start = None
    return Job(
        id=head["id"],
        array_job=_number_of(head, "ArrayJobId"),
        array_task=_number_of(head, "ArrayTaskId"),
        het_job=_number_of(head, "HetJobId"),
        het_offset=_number_of(head, "HetJobOffset"),
        name=bounded(name),
        user=bounded(user["user"]),
        account=_field_value(own, "Account"),
        partition=_field_value(own, "Partition"),
        qos=_field_value(own, "QOS"),
        state=_field_value(own, "JobState"),
        time_limit_seconds=duration(_field_value(own, "TimeLimit")),
        start_time=start,
        node_count=natural(_field_value(own, "NumNodes").partition("-")[0]),
        task_count=natural(_field_value(own, "NumTasks").partition("-")[0]),
        restarts=natural(_field_value(own, "Restarts")),
        gres=None
        if not groups and _MAY_HAVE_GRES.search(text)
        else tuple(each for group in groups for each in node_gres(frozenset(hosts(group["nodes"])), group["gres"])),
        parts=bool(_PARTS.search(text)),
        node_list=_field_value(own, "NodeList", _MANY),
    )


def part_name(text: str, job: str) -> str:
    """Return the name of the array element or component with this raw id in a text of several records; else empty."""
    for head in _HEAD.finditer(text):
        if head["id"] == job and (task := _number_of(head, "ArrayTaskId")):
            return f"{job}_{task}"
        if head["id"] == job and (offset := _number_of(head, "HetJobOffset")):
            return f"{_number_of(head, 'HetJobId')}+{offset}"
    return ""


def _number_of(head: re.Match[str], key: str) -> str:
    """Return a field before the name; empty if absent, or no number as of pending elements (`3-9%2`)."""
    match = re.search(rf" {key}=({_ID})(?: |$)", head["fields"])
    return match[1] if match else ""


def _field_value(text: str, key: str, limit: int = 256) -> str:
    match = re.search(rf" {key}=(\S*)", text)
    return bounded(match[1], limit) if match and match[1] not in ("(null)", "N/A") else ""


def node_gres(nodes: frozenset[str], text: str) -> Iterator[NodeGres]:
    """Yield the allocation on each of `nodes` from `gpu:a:2(IDX:0-1),shard:3(IDX:5)`.

    Newer versions (24.11) write parts of GPUs by GPU, allocated of all: `shard:3(0/4,3/4)`.
    """
    for found in _GRES.finditer(text[:_MANY]):
        if found["parts"]:
            amounts = [int(part.partition("/")[0]) for part in found["parts"].split(",")[:_MANY_GPUS]]
            yield from (NodeGres(nodes, found["name"], count, (place,)) for place, count in enumerate(amounts) if count)
            continue
        yield NodeGres(nodes, found["name"], int(found["count"]), indices(found["indices"]))


def indices(text: str) -> tuple[int, ...]:
    """Parse `0-1,3`."""
    return tuple(int(number) for number in _expand_numbers(text[:_MANY], _MANY_GPUS))


def hosts(text: str) -> tuple[str, ...]:
    """Parse names as of `n[01-03],r[1-2]n[1-4]`; leading zeros are kept."""
    names: list[str] = []
    for match in _HOST.finditer(text[:_MANY]):
        if len(names) > _MANY:
            break
        names += _host_names(match[0])
    return tuple(names)


def first_host(text: str) -> str:
    """Return the first name of a list of nodes; empty if there is none."""
    match = _HOST.search(text)
    return _HOST_PART.sub(lambda part: part[1] or re.split("[-,]", part[2])[0], match[0]) if match else ""


def _host_names(text: str) -> list[str]:
    """Parse one entry of a list: each bracket stands for any of its numbers."""
    found = [""]
    for part in _HOST_PART.finditer(text):
        ends = [part[1]] if part[1] else list(_expand_numbers(part[2], _MANY // max(1, len(found))))
        found = [before + end for before in found for end in ends]
    return found


def _expand_numbers(text: str, left: int = _MANY) -> Iterator[str]:
    for match in _RANGE.finditer(text):
        first, last = match[1], match[2] or match[1]
        count = int(last) - int(first) + 1
        if count > left:
            return
        left -= max(count, 0)
        yield from (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))


def duration(text: str) -> float | None:
    """Parse seconds of `[days-]hours:minutes:seconds`; None for UNLIMITED and similar words."""
    match = re.fullmatch(r"(?:([0-9]{1,10})-)?([0-9]{1,10}):([0-9]{1,10}):([0-9]{1,10})", text)
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


_VISIBLE = "CUDA_VISIBLE_DEVICES"
_WANTED = (
    *(f"SLURM_{name}" for name in ("JOB_ID", "JOB_USER", "JOB_ACCOUNT", "JOB_PARTITION", "JOB_NAME")),
    *("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", _VISIBLE, "SLURM_JOB_NUM_NODES", "SLURM_NTASKS"),
)
_MAX_BYTES = 1 << 20
_VALUE_BYTES = 4096
_YEAR_SECONDS = 365 * 86400.0
"""Time limit that Slurm writes for a job without one."""


@dataclass(frozen=True, slots=True)
class JobVariables:
    """A job as its variables describe it. The id is empty where they name no job."""

    job: Job = field(default_factory=lambda: Job("", gres=None))
    gpus: tuple[int, ...] = ()
    """GRES indexes."""
    devices: tuple[DeviceName, ...] = ()
    """MIG instances by UUID, as Slurm names them: their indexes mean little."""


def parse(text: bytes) -> Mapping[str, str]:
    """Return Slurm's variables of an environment block, as far as they are used here; a long value is cut."""
    block = b"\0" + text
    found: dict[str, str] = {}
    for name in _WANTED:
        key = f"\0{name}=".encode()
        start = block.find(key) + len(key)
        if start >= len(key):
            value = block[start : start + _VALUE_BYTES].partition(b"\0")[0]
            shown = value.decode(errors="replace")
            found[name] = shown if name == _VISIBLE else bounded(shown)
    return found


def job_variables(fields: Mapping[str, str]) -> JobVariables:
    """Return the job that variables describe.

    SLURM_STEP_GPUS counts only where the job's own list is missing: binding of tasks makes it wrong.
    """

    def value(name: str) -> str:
        found = fields.get(name, "")
        return "" if found in ("(null)", "N/A") else bounded(found)

    def number(name: str) -> str:
        return found if re.fullmatch(r"[0-9]{1,10}", found := fields.get(name, "")) else ""

    def moment(name: str) -> UnixTime | None:
        found = fields.get(name, "")
        return UnixTime(float(found)) if re.fullmatch(r"[0-9]{1,12}", found) and int(found) else None

    start, end = moment("SLURM_JOB_START_TIME"), moment("SLURM_JOB_END_TIME")
    limit = end - start if start and end else 0.0
    job = Job(
        id=number("SLURM_JOB_ID"),
        user=value("SLURM_JOB_USER"),
        account=value("SLURM_JOB_ACCOUNT"),
        partition=value("SLURM_JOB_PARTITION"),
        name=value("SLURM_JOB_NAME"),
        qos=value("SLURM_JOB_QOS"),
        array_job=number("SLURM_ARRAY_JOB_ID"),
        array_task=number("SLURM_ARRAY_TASK_ID"),
        het_job=number("SLURM_HET_JOB_ID"),
        het_offset=number("SLURM_HET_JOB_OFFSET"),
        time_limit_seconds=limit if limit > 0 and limit != _YEAR_SECONDS else None,
        start_time=start,
        node_count=natural(value("SLURM_JOB_NUM_NODES")),
        task_count=natural(value("SLURM_NTASKS")),
        restarts=natural(value("SLURM_JOB_RESTART_COUNT")),
        gres=None,
    )
    gpus = indices(fields.get("SLURM_JOB_GPUS") or fields.get("SLURM_STEP_GPUS", ""))
    return JobVariables(job, gpus, mig_instances(fields.get(_VISIBLE, "")))


def mig_instances(visible: str) -> tuple[DeviceName, ...]:
    """Return the MIG instances that CUDA_VISIBLE_DEVICES names, as Slurm sets it for them."""
    names = (part.strip() for part in visible[:4096].split(","))
    found = (device_of(name) for name in names if name.startswith("MIG-"))
    return tuple(name for name in found if name)


def read_environ(pid: int, procfs: Path) -> JobVariables:
    """Return the variables of a process; empty if it has ended or may not be read (needs SYS_PTRACE)."""
    try:
        with (procfs / str(pid) / "environ").open("rb") as file:
            return job_variables(parse(file.read(_MAX_BYTES)))
    except OSError:
        return JobVariables()


class JobEnvironments(Lookup[tuple[int, UnixTime], JobVariables]):
    """Environments of processes, each read once, in a thread: the kernel may let their reader wait."""

    def __init__(self, procfs: Path) -> None:
        super().__init__("environ", lambda key: read_environ(key[0], procfs))

    def of(self, processes: Mapping[int, UnixTime]) -> Mapping[int, JobVariables]:
        """Return the variables by pid, given with its start time; empty for one that is still being read."""
        self.keep(set(processes.items()))
        return {pid: self.get((pid, start)) or JobVariables() for pid, start in processes.items()}


def merged(job: str, each: Iterable[JobVariables]) -> JobVariables | None:
    """Return the variables of a job's processes in one; None if none of them names this job."""
    ours = [variables for variables in each if variables.job.id == job]
    if not ours:
        return None
    gpus = tuple(sorted({index for variables in ours for index in variables.gpus}))
    devices = tuple(sorted({name for variables in ours for name in variables.devices}, key=str))
    return replace(ours[0], gpus=gpus, devices=devices)
