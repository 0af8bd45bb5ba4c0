"""Read jobs of slurmdbd by `sacct`: state, requested and used resources."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.host import program
from exporter.host.text import lines

_FIELDS = (
    *("JobIDRaw", "JobID", "User", "Account", "Partition", "QOS", "Cluster", "State", "ExitCode", "Start", "End"),
    *("ElapsedRaw", "TimelimitRaw", "NNodes", "AllocCPUS", "TotalCPU", "MaxRSS", "AllocTRES", "ReqTRES"),
)
"""None that a user writes freely: a job's name could hold the separator, or a line of another job."""
_SEPARATOR = "|"
_ENDED = "CD,F,TO,CA,OOM,NF,PR,DL,BF"
_TIMEOUT_SECONDS = 60.0
_UTC = "UTC0"
"""Time zone sacct is asked in: elsewhere an hour of autumn is there twice, and one of the two is not asked for."""
_PARTS = re.compile(r"gres/(shard|mps)$|gres/gpu:.*\d+g\.\d+gb")
"""TRES of parts of GPUs. MIG instances are counted among the GPUs too, where their type is known."""
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


class SacctError(Exception):
    """One line: what sacct reported instead of an answer."""


@dataclass(frozen=True, slots=True)
class AccountedJob:
    """One job; None and empty where slurmdbd does not say."""

    raw_id: str
    name: str
    """Job id as users know it: 4711, 4711_3 of an array, 4711+1 of a heterogeneous job."""
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    cluster: str = ""
    state: str = ""
    exit_code: str = ""
    start: float | None = None
    end: float | None = None
    elapsed: float = 0.0
    time_limit: float | None = None
    nodes: int = 0
    cpus: int = 0
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    """Asked for, on all nodes together."""
    memory_peak_bytes: int | None = None
    """The largest step's largest process, on one node."""
    gpus: float = 0.0
    """Whole ones; slurmdbd counts shards and MPS apart from them."""
    shared: bool = False
    """Parts of GPUs were allocated."""
    billing: float | None = None

    @property
    def allocated_gpus(self) -> bool:
        return self.shared or self.gpus > 0


class Sacct:
    """Asks slurmdbd. Methods raise SacctError."""

    def __init__(self, command: str = "sacct") -> None:
        self._command = command

    def jobs(self, raw_ids: Sequence[str]) -> Mapping[str, AccountedJob]:
        """Jobs by raw id; those slurmdbd does not know are left out."""
        return {job.raw_id: job for job in parse(self._ask("-j", ",".join(raw_ids))) if job.raw_id in raw_ids}

    def ended(self, since: float, until: float) -> Sequence[AccountedJob]:
        """Jobs of everybody that ended in this time."""
        asked = ("-a", "-X", "-s", _ENDED, "-S", _moment(since), "-E", _moment(until + 1))
        return [job for job in parse(self._ask(*asked)) if job.end is not None and since <= job.end <= until]

    def of_name(self, name: str) -> AccountedJob | None:
        """The job that users call so (4711_3, 4711+1), or that has this raw id."""
        found = parse(self._ask("-j", name.partition("+")[0]))
        return next((job for job in found if name in (job.name, job.raw_id)), None)

    def _ask(self, *what: str) -> str:
        command = [self._command, "-n", "-P", f"--delimiter={_SEPARATOR}", "-o", ",".join(_FIELDS), *what]
        environment = {**os.environ, "SLURM_TIME_FORMAT": "%s", "TZ": _UTC}
        try:
            return program.output(command, _TIMEOUT_SECONDS, environment=environment)
        except program.ProgramError as error:
            raise SacctError(str(error)) from None


def parse(text: str) -> Sequence[AccountedJob]:
    """Jobs of what sacct prints, with what their steps used."""
    found: dict[str, AccountedJob] = {}
    for line in lines(text):
        values = line.split(_SEPARATOR)
        if len(values) != len(_FIELDS):
            continue
        row = dict(zip(_FIELDS, values, strict=True))
        raw, _, step = row["JobIDRaw"].partition(".")
        if not step and raw.isdecimal():
            found[raw] = _job(raw, row)
        elif raw in found:
            peak = _bytes(row["MaxRSS"])
            known = found[raw].memory_peak_bytes
            found[raw] = replace(found[raw], memory_peak_bytes=max(peak or 0, known or 0) or None)
    return list(found.values())


def _job(raw: str, row: Mapping[str, str]) -> AccountedJob:
    tres = _tres(row["AllocTRES"])
    # Where only typed GPUs are counted (gres/gpu:h100), their sum.
    gpus = {name: _number(count) or 0.0 for name, count in tres.items() if re.match("gres/gpu(:|$)", name)}
    limit = row["TimelimitRaw"]
    return AccountedJob(
        raw_id=raw,
        name=row["JobID"],
        user=row["User"],
        account=row["Account"],
        partition=row["Partition"],
        qos=row["QOS"],
        cluster=row["Cluster"],
        state=row["State"].partition(" ")[0],
        exit_code=row["ExitCode"],
        start=_number(row["Start"]),
        end=_number(row["End"]),
        elapsed=_number(row["ElapsedRaw"]) or 0.0,
        time_limit=float(limit) * 60 if limit.isdecimal() else None,
        nodes=int(_number(row["NNodes"]) or 0),
        cpus=int(_number(row["AllocCPUS"]) or 0),
        cpu_seconds=_cpu_seconds(row["TotalCPU"]),
        # Without CR_Core_Memory and the like, memory is requested but not allocated.
        memory_bytes=_bytes(tres.get("mem") or _tres(row["ReqTRES"]).get("mem", "")),
        gpus=gpus.get("gres/gpu", sum(gpus.values())),
        shared=any(_number(count) for name, count in tres.items() if _PARTS.match(name)),
        billing=_number(tres.get("billing", "")),
    )


def _tres(text: str) -> Mapping[str, str]:
    return {name: amount for name, _, amount in (pair.partition("=") for pair in text.split(","))}


def _moment(at: float) -> str:
    """Format a time in sacct's time zone; it prints Unix seconds but does not take them."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]{1,15}(\.[0-9]+)?", text) else None


def _cpu_seconds(text: str) -> float | None:
    """`[days-][hours:]minutes:seconds[.fraction]`."""
    match = re.fullmatch(r"(?:(\d{1,6})-)?(?:(\d{1,6}):)?(\d{1,6}):(\d{1,6}(?:\.\d+)?)", text)
    if not match:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _bytes(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d+)?)([KMGTP]?)", text)
    return int(float(match[1]) * _UNITS[match[2]]) if match else None
