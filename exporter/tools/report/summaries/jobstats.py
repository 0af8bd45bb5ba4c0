"""A job's AdminComment in slurmdbd, in the form of jobstats: `JS1:`, then JSON, gzipped, in base64.

reportseff, Open OnDemand's helpers and jobstats itself read it. Times are seconds, memory is bytes, utilization is
percent; GPUs go by their index on the node.
"""

from __future__ import annotations

import base64
import gzip
import json
import logging
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from exporter.host import program
from exporter.tools.report.accounting.sacct import AccountedJob
from exporter.tools.report.definitions import utilization
from exporter.tools.report.model import DeviceUse, JobReport, NodeUse

NOTHING = "JS1:None"
"""Text for a job without metrics."""


def encode(report: JobReport, job: AccountedJob | None) -> str:
    """Return the text without values that are not known: readers average over nodes, and a made-up 0 would count."""
    content = document(report, job)
    if not content["nodes"]:
        return NOTHING
    packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0)
    return f"JS1:{base64.b64encode(packed).decode()}"


def document(report: JobReport, job: AccountedJob | None) -> Mapping[str, Any]:
    devices: dict[str, list[DeviceUse]] = defaultdict(list)
    for device in report.devices:
        devices[device.node].append(device)
    nodes = {_short_node(node.node): _node_entry(node, devices[node.node], job) for node in report.nodes}
    return {
        "total_time": round(job.elapsed if job and job.elapsed else report.span.seconds, 1),
        "gpus": len(report.devices),
        "nodes": {name: found for name, found in nodes.items() if found},
    }


def _node_entry(node: NodeUse, devices: list[DeviceUse], job: AccountedJob | None) -> Mapping[str, Any]:
    """Readers divide by each of the host's four numbers: without all of them a node is left out."""
    cpus = job.cpus / job.nodes if job and job.nodes else node.cpu_limit_cores
    memory = job.memory_bytes / job.nodes if job and job.nodes and job.memory_bytes else node.memory_limit_bytes
    seconds, used = node.cpu_seconds, node.resident_bytes
    if job and job.nodes == 1:  # slurmdbd has what a node without the controllers' cgroups does not report
        seconds = job.cpu_seconds if seconds is None else seconds
        used = float(job.memory_peak_bytes) if used is None and job.memory_peak_bytes else used
    if not cpus or not memory or seconds is None or used is None:
        return {}
    host = {
        "cpus": round(cpus),
        "total_time": round(seconds, 1),
        "total_memory": round(memory),
        "used_memory": round(used),
    }
    return {**host, **_gpu_entries(devices)}


def _gpu_entries(devices: list[DeviceUse]) -> Mapping[str, Any]:
    """MIG instances of one GPU go by index and place, as 1.0, 1.1."""
    seen: dict[str, int] = defaultdict(int)
    found: dict[str, dict[str, float]] = {"gpu_total_memory": {}, "gpu_used_memory": {}, "gpu_utilization": {}}
    for device in devices:
        name = f"{device.gpu}.{seen[device.gpu]}" if " MIG " in device.model else device.gpu
        seen[device.gpu] += 1
        busy = utilization(device.hours)
        if busy is None or device.memory_peak_bytes is None or not device.memory_total_bytes:
            continue
        found["gpu_total_memory"][name] = round(device.memory_total_bytes)
        found["gpu_used_memory"][name] = round(device.memory_peak_bytes)
        found["gpu_utilization"][name] = round(busy * 100, 1)
    return found if found["gpu_utilization"] else {}


def _short_node(node: str) -> str:
    """The node's name as Slurm has it: `instance` carries a port, and perhaps a domain."""
    host = node.rpartition(":")[0] if ":" in node else node
    return host if host.replace(".", "").isdigit() else host.partition(".")[0]


log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 20.0
_OURS = re.compile("JS1:|GPU ", re.IGNORECASE)
"""Beginnings of our comments and those of jobstats. Any other comment is the site's."""


class CommentError(Exception):
    """One line: what was answered instead of yes."""


class Commenter:
    """Writes comments with sacctmgr: slurmctld takes none for a job that is over.

    sacctmgr in some versions of Slurm (22.05) makes every letter small: no base64 survives that.
    """

    def __init__(
        self, sacctmgr: str = "sacctmgr", sacct: str = "sacct", *, exact: bool | None = None, existing: str = "append"
    ) -> None:
        self._sacctmgr = sacctmgr
        self._sacct = sacct
        self.exact = exact
        """True if slurmdbd keeps a comment as it is; not known before the first one."""
        self._existing = existing

    def write(self, name: str, comment: str, plain: str) -> None:
        """Raises CommentError. `plain` is the comment in words, for a Slurm that does not keep it.

        `name` is the job as users know it (4711_3): a raw id may be an array's too, and mean all its elements.
        """
        sites = self._shown(name)
        if sites and not _OURS.match(sites):
            if self._existing == "append" and plain.lower() not in sites.lower():
                self._set_comment(name, f"{sites}; {plain}")
            return
        self._set_comment(name, comment if self.exact is not False else plain)
        if self.exact is None:
            self.exact = comment == comment.lower() or comment in self._shown(name)
            if not self.exact:
                log.warning("this Slurm's sacctmgr makes letters small: comments are one line of text")
                self._set_comment(name, plain)

    def _shown(self, name: str) -> str:
        return self._output(self._sacct, "-n", "-X", "-P", "-j", name, "-o", "AdminComment").strip()

    def _set_comment(self, name: str, comment: str) -> None:
        where = ("where", f"jobid={name}", "set", f"AdminComment={comment}")
        self._output(self._sacctmgr, "-i", "modify", "job", *where)

    def _output(self, *command: str) -> str:
        try:
            return program.output(command, _TIMEOUT_SECONDS)
        except program.ProgramError as error:
            raise CommentError(str(error)) from None
