"""Health of this node's GPUs in Kubernetes: the condition `GPUHealthy`, a taint, and events on pods."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Collection, Mapping
from urllib.parse import quote

from exporter.attribution.background_source import FailureLog, SourceError
from exporter.attribution.documents import Document, part, parts, text
from exporter.attribution.kubernetes.api_server import (
    MERGE,
    STRATEGIC,
    ApiServer,
    StatusError,
    Write,
    node_path,
)
from exporter.core.clock import UnixTime, unix_time
from exporter.core.printable import printable
from exporter.daemon.config import NodeHealthConfig
from exporter.faults.evaluate import STAGES, Report, evaluate
from exporter.faults.rule import Facts, Finding, Verdict, from_blocks
from exporter.sampling.snapshot import Snapshot

CONDITION, TAINT = "GPUHealthy", "gpu-exporter/gpu-unhealthy"
_EVERY_SECONDS = 10.0
_PAUSE_SECONDS = 60.0
"""The same after a failure: a role that is missing is missing on all nodes."""
_HEARTBEAT_SECONDS = 300.0
"""Time after which an unchanged condition is written again, as node-problem-detector does."""
_STATUS = {Verdict.OK: "True", Verdict.DEGRADED: "True", Verdict.FAILED: "False", Verdict.UNKNOWN: "Unknown"}
_CONFLICT = 409
_LONGEST = 1024
"""Characters of a message, the limit of an event's."""


class NodeHealth:
    """Writes what the health check finds. A finding counts once two evaluations in a row have it."""

    def __init__(
        self,
        server: ApiServer,
        node: str,
        config: NodeHealthConfig,
        snapshot: Callable[[], Snapshot],
        clock: Callable[[], UnixTime] = unix_time,
    ) -> None:
        self._server, self._node, self._config = server, node, config
        self._snapshot, self._clock = snapshot, clock
        self._last: object = None
        """Verdict and failures of the last evaluation."""
        self._written: tuple[object, UnixTime] = (None, UnixTime(0))
        self._reported: Collection[tuple[str, ...]] = ()
        """Pods and GPUs with an event."""

    def run(self, stopped: threading.Event) -> None:
        failures, pause = FailureLog("kubernetes_node_health"), _EVERY_SECONDS
        while not stopped.wait(pause):
            try:
                self.publish()
                failures.answered()
                pause = _EVERY_SECONDS
            except SourceError as error:
                failures.failed(error)
                pause = _PAUSE_SECONDS

    def publish(self) -> None:
        """Evaluate the last snapshot, and write what has changed. Raises SourceError."""
        now, snapshot = self._clock(), self._snapshot()
        facts = from_blocks(snapshot.blocks, now)
        report = evaluate(facts, snapshot.limits, STAGES["periodic"].left_out)
        failed = [each for each in report.findings if each.verdict is Verdict.FAILED]
        state = (report.verdict, frozenset((each.gpu, each.rule) for each in failed))
        confirmed, self._last = state == self._last, state
        without_gpu = report.verdict is Verdict.OK and not report.gpus
        if not confirmed or not snapshot.status.cycles or without_gpu:
            return
        if self._written[0] != state or now - self._written[1] >= _HEARTBEAT_SECONDS:
            self._write_node(report, _rfc3339_time(now))
            self._written = state, now
        if "events" in self._config.node_health:
            self._write_events(facts, {each.uuid: each for each in reversed(failed) if each.uuid}, _rfc3339_time(now))

    def _write_node(self, report: Report, now: str) -> None:
        path = node_path(self._node)
        node = self._server.document(path)
        if "condition" in self._config.node_health:
            change = {"status": {"conditions": [_node_condition(report, node, now)]}}
            node = self._server.document(f"{path}/status", Write("PATCH", change, STRATEGIC))
        if self._config.taint_effect and report.verdict is not Verdict.UNKNOWN:
            taints = [*parts(part(node, "spec"), "taints")]
            wanted = [each for each in taints if each.get("key") != TAINT]
            if report.verdict is Verdict.FAILED:
                wanted.append({"key": TAINT, "effect": self._config.taint_effect})
            if wanted != taints:  # refused if somebody else has changed the node meanwhile
                version = {"resourceVersion": part(node, "metadata").get("resourceVersion")}
                self._server.document(path, Write("PATCH", {"metadata": version, "spec": {"taints": wanted}}, MERGE))

    def _write_events(self, facts: Facts, failed: Mapping[str, Finding], now: str) -> None:
        uids = {(s.labels["namespace"], s.labels["pod"]): s.labels["pod_uid"] for s in facts.of("gpu_workload_info")}
        rows = [s.labels for s in (*facts.of("gpu_allocation_ratio"), *facts.of("gpu_mig_allocation_ratio"))]
        places = {(row["namespace"], row["pod"], row.get("parent_uuid") or row["uuid"]) for row in rows if row["pod"]}
        hit = {place for place in places if place[2] in failed}
        for namespace, pod, uuid in hit.difference(self._reported):
            uid = uids.get((namespace, pod), "")
            name = f"{pod[:200]}.{hashlib.sha256(f'{uid}{uuid}{failed[uuid].rule}'.encode()).hexdigest()[:16]}"
            event = {
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod, "uid": uid},
                "type": "Warning",
                "reason": "GPUFailed",
                "message": _condition_message(f"{failed[uuid].summary} ({uuid}, node {self._node})"),
                "source": {"component": "gpu-exporter", "host": self._node},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            try:
                self._server.document(f"/api/v1/namespaces/{quote(namespace, safe='')}/events", Write("POST", event))
            except StatusError as error:
                if error.status != _CONFLICT:  # an earlier process wrote it
                    raise
        self._reported = hit


def _node_condition(report: Report, node: Document, now: str) -> Document:
    status = _STATUS[report.verdict]
    worst = report.findings[0].rule.title().replace("_", "") if report.findings else "NoFault"
    known = {text(each, "type"): text(each, "status") for each in parts(part(node, "status"), "conditions")}
    return {
        "type": CONDITION,
        "status": status,
        "reason": "Unknown" if report.verdict is Verdict.UNKNOWN else worst,
        "message": _condition_message(report.summary),
        "lastHeartbeatTime": now,
        **({} if known.get(CONDITION) == status else {"lastTransitionTime": now}),
    }


def _condition_message(summary: str) -> str:
    return printable(summary)[:_LONGEST]


def _rfc3339_time(moment: UnixTime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(moment)))
