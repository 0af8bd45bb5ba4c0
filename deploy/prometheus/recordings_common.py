"""Parts of the recording rules of all levels: the labels of a level, sums over it, one series of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap

from deploy.prometheus.declaration import Recording
from deploy.prometheus.states import ADVICE, TITLES
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


def record_each(
    record: str, labels: tuple[str, ...], rules: Iterable[tuple[Mapping[str, str], str]], help: str
) -> Recording:
    """Return a recording of one rule per expression, each with labels of its own: short to read, one name to ask."""
    made = tuple(rules)
    return Recording(record=record, expr="\nor\n".join(starmap(_with, made)), help=help, by=labels, rules=made)


def each_value(label: str, exprs: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], str]]:
    """Yield the rules of a recording: one per value of `label`."""
    for value, expr in exprs.items():
        yield {label: value}, expr


def _with(labels: Mapping[str, str], expr: str) -> str:
    for label, value in labels.items():
        expr = f'label_replace({expr}, "{label}", "{value}", "", "")'
    return expr


STATE_INDEX = record_each(
    "state:gpu_state:index",
    ("state", "title", "advice"),
    (
        ({"state": state, "title": TITLES[state], "advice": ADVICE.get(state, "")}, f"vector({place})")
        for place, state in enumerate(STATES)
    ),
    "The place of each state in the ledger's table: what state timelines show. Alerts read its title and advice.",
)


def once(labels: Iterable[str], expr: str) -> str:
    """One series per `labels`, however many targets scrape the same exporter."""
    return f"max {by(('instance', *labels))} ({expr})"
