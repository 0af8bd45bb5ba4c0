"""A job over four nodes: an hour in health, an hour with a rank that lags, an hour in which it hangs.

`python -m tests.replay.ranks`: the exporter's own parts sample the nodes, a real Prometheus evaluates the alerts as
they are shipped. No alert in the healthy hour, with checkpoints and evaluations in it; then the straggler by node, GPU
and reason; then the hang.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from deploy.prometheus.wording import STATE_OF_GPU
from tests.replay.evaluate import Fired, evaluate, write
from tests.replay.plan import HOUR, Plan
from tests.replay.replay import START
from tests.stack import prometheus

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
SLOW = "gpu03"
JOB = 4711
INTERVAL = 30.0
_RUNS_ON = ("GpuUnderutilized", "GpuHeldIdle")
"""They follow from a job that loses its time, whoever of its ranks is to blame."""


def _phase(pattern: str, start: float, seconds: float, nodes: tuple[str, ...] = NODES) -> dict[str, Any]:
    return {"name": "train", "pattern": pattern, "nodes": list(nodes), "gpus": "0-7", "job": JOB, "user": "ada",
            "start": start, "duration": seconds}  # fmt: skip


def _phases() -> Iterator[dict[str, Any]]:
    for twenty in range(3):  # 17 minutes of steps, a checkpoint, an evaluation with a loader that is too slow
        at = twenty * 1200.0
        yield _phase("training", at, 1020)
        yield _phase("checkpoint", at + 1020, 90)
        yield _phase("input-bound", at + 1110, 90)
    others = tuple(node for node in NODES if node != SLOW)
    yield _phase("slow-disk-rank", HOUR, HOUR, (SLOW,))
    yield _phase("hung-collective", HOUR, HOUR, others)  # they spin, as the other GPUs of the slow rank's node do
    yield _phase("training", 2 * HOUR, 0.5 * HOUR)
    yield _phase("hung-collective", 2.5 * HOUR, HOUR)


def plan() -> Plan:
    return Plan(NODES, 3.5, (), tuple(_phases()))


def reason(url: str, fired: Fired) -> str:
    """The state the description of the alert names: what its template asks."""
    labels = fired.labels
    query = STATE_OF_GPU.partition("`")[2].partition("`")[0].replace("<window>", "10m")
    for place, name in enumerate(("cluster", "instance", "uuid"), 1):
        query = query.replace(f"%[{place}]q", f'"{labels[name]}"')
    at = {"query": query, "time": START + (fired.begin + fired.end) / 2}
    found = requests.get(f"{url}/api/v1/query", params=at, timeout=30).json()["data"]["result"]
    return str(found[0]["metric"]["state"]) if found else ""


def problems(fired: list[Fired], reasons: dict[str, str]) -> Iterator[str]:
    """What is not as it must be."""
    for each in fired:
        if each.begin < HOUR:
            yield f"in the healthy hour: {each}"
        if each.alert not in {"GpuStraggler", "GpuStragglerNode", "GpuCollectiveHung", *_RUNS_ON}:
            yield f"nothing planted explains {each}"
    named = {(e.labels["node"], e.labels["gpu"]) for e in fired if e.alert == "GpuStraggler"}
    if named != {(SLOW, "0")}:
        yield f"the straggler is GPU 0 of {SLOW}, not {sorted(named)}"
    if set(reasons.values()) != {"wait_storage"}:
        yield f"the straggler waits for storage, not {reasons}"
    hung = [e for e in fired if e.alert == "GpuCollectiveHung"]
    if not any(e.begin >= 2.5 * HOUR and e.labels["workload"] == f"slurm:{JOB}" for e in hung):
        yield f"the hang is not told: {hung}"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(plan(), START, INTERVAL, folder)
        fired = list(evaluate(plan(), START, INTERVAL, folder))
        with prometheus(folder / "prometheus.yaml", folder, "--storage.tsdb.retention.time=10y") as url:
            reasons = {e.labels["uuid"]: reason(url, e) for e in fired if e.alert == "GpuStraggler"}
    wrong = list(problems(fired, reasons))
    for each in fired:
        sys.stdout.write(f"{each.begin / 60:4.0f} to {each.end / 60:4.0f} min  {each.alert}  {_where(each)}\n")
    sys.stdout.write("".join(f"WRONG {each}\n" for each in wrong))
    sys.stdout.write(f"{len(NODES) * 8} GPUs: {len(fired)} alerts, {len(wrong)} wrong; why: {set(reasons.values())}\n")
    return 1 if wrong else 0


def _where(fired: Fired) -> str:
    return " ".join(fired.labels[name] for name in ("workload", "node", "gpu") if name in fired.labels)


if __name__ == "__main__":
    sys.exit(main())
