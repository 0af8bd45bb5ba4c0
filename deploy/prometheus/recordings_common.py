"""Parts of the recording rules of all levels: the labels of a level, sums over it, one series of many."""

from __future__ import annotations

from collections.abc import Iterable

from deploy.prometheus.declaration import Recording
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.ledger.states import STATES

NODE = ("node", "instance")
WHOLE = tuple(label for label in KEPT_OWNER_LABELS if label not in {"workload_pod", "workload_container"})
"""Labels of a whole workload: one series for all its pods and nodes, which pods that come and go do not renew."""
MODEL = ("model",)


def by(labels: Iterable[str]) -> str:
    return f"by ({', '.join(('cluster', *labels))})"


def summed(labels: Iterable[str], expr: str) -> str:
    return f"sum {by(labels)} ({expr})"


def record(record: str, labels: tuple[str, ...], expr: str, help: str) -> Recording:
    return Recording(record=record, expr=expr, help=help, by=labels)


STATE_INDEX = record(
    "state:gpu_state:index",
    ("state",),
    "\nor\n".join(f'label_replace(vector({place}), "state", "{state}", "", "")' for place, state in enumerate(STATES)),
    "The place of each state in the ledger's table: what state timelines show.",
)


def once(labels: Iterable[str], expr: str) -> str:
    """One series per `labels`, however many targets scrape the same exporter."""
    return f"max {by(('instance', *labels))} ({expr})"
