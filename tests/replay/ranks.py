"""A job over four nodes: an hour in health, an hour with a rank that lags, an hour in which it hangs.

`python -m tests.replay.ranks`: the exporter's own parts sample the nodes, a real Prometheus evaluates the alerts as
they are shipped. No alert in the healthy hour, with checkpoints and evaluations in it; then the straggler by node, GPU
and reason; then the hang.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from deploy.prometheus.alerts_ranks import STRAGGLER
from deploy.prometheus.wording import STATES_OF_STRAGGLERS
from tests.replay.evaluate import Fired, evaluate, write
from tests.replay.plan import HOUR, Plan
from tests.replay.replay import START
from tests.stack import prometheus

NODES = ("gpu01", "gpu02", "gpu03", "gpu04")
SLOW = "gpu03"
JOB = 4711
INTERVAL = 30.0
_RUNS_ON = ("GpuUnderutilized", "GpuAllocatedIdle")
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


def blamed(url: str, fired: Fired) -> Iterator[tuple[str, str, str]]:
    """Node, index and state of each GPU that the description of the alert names: by what its template asks."""
    queries = [text for text in re.findall(r"printf `([^`]*)`", STATES_OF_STRAGGLERS) if "{" in text]
    asked = "\n".join(queries)
    for param in STRAGGLER.params:
        asked = asked.replace(f"<{param.name}>", f"{param.default}")
    stragglers, _, state = asked.splitlines()
    state = state.partition(" * on (state)")[0]  # without the state's words, which are not recorded here
    at = START + (fired.begin + fired.end) / 2
    for gpu in _query(url, _filled(stragglers, fired.labels["cluster"], fired.labels["workload"]), at):
        states = _query(url, _filled(state, fired.labels["cluster"], gpu["instance"], gpu["uuid"]), at)
        yield gpu["node"], gpu["gpu"], states[0]["state"] if states else ""


def _filled(template: str, *values: str) -> str:
    for place, value in enumerate(values, 1):
        template = template.replace(f"%[{place}]q", f'"{value}"')
    return template


def _query(url: str, query: str, at: float) -> list[dict[str, str]]:
    answer = requests.get(f"{url}/api/v1/query", params={"query": query, "time": at}, timeout=30).json()
    return [each["metric"] for each in answer["data"]["result"]]


def problems(fired: list[Fired], named: set[tuple[str, str, str]]) -> Iterator[str]:
    """What is not as it must be."""
    for each in fired:
        if each.begin < HOUR:
            yield f"in the healthy hour: {each}"
        if each.alert not in {"GpuStraggler", "GpuWorkloadHung", *_RUNS_ON}:
            yield f"nothing planted explains {each}"
    if named != {(SLOW, "0", "wait_storage")}:
        yield f"the straggler is GPU 0 of {SLOW}, which waits for storage, not {sorted(named)}"
    hung = [e for e in fired if e.alert == "GpuWorkloadHung"]
    if not any(e.begin >= 2.5 * HOUR and e.labels["workload"] == f"slurm:{JOB}" for e in hung):
        yield f"the hang is not told: {hung}"


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(plan(), START, INTERVAL, folder)
        fired = list(evaluate(plan(), START, INTERVAL, folder))
        with prometheus(folder / "prometheus.yaml", folder, "--storage.tsdb.retention.time=10y") as url:
            named = {gpu for each in fired if each.alert == "GpuStraggler" for gpu in blamed(url, each)}
    wrong = list(problems(fired, named))
    for each in fired:
        sys.stdout.write(f"{each.begin / 60:4.0f} to {each.end / 60:4.0f} min  {each.alert}  {_where(each)}\n")
    sys.stdout.write("".join(f"WRONG {each}\n" for each in wrong))
    sys.stdout.write(f"{len(NODES) * 8} GPUs: {len(fired)} alerts, {len(wrong)} wrong; waited for: {sorted(named)}\n")
    return 1 if wrong else 0


def _where(fired: Fired) -> str:
    return " ".join(fired.labels[name] for name in ("workload", "node", "gpu") if name in fired.labels)


if __name__ == "__main__":
    sys.exit(main())
