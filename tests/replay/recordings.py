"""What the recording rules say over recorded data, written into it: the rules that the alerts are made of."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import requests

from deploy.prometheus.declaration import Recording
from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.targets import OTHERS, TARGETS
from tests.stack import program

_NAME = re.compile(r"[a-z_]+:[a-z0-9_]+:[a-z0-9_]+")
_WRITTEN = {TARGETS.record, OTHERS.record}
"""Written with the data."""
_BY_NAME = {rule.record: rule for group in GROUPS for rule in group.rules}


def needed(exprs: Collection[str]) -> tuple[Recording, ...]:
    """The recordings that these expressions are made of, and those that these are made of."""
    found: dict[str, Recording] = {}
    queue = list(exprs)
    while queue:
        for name in (set(_NAME.findall(queue.pop())) & _BY_NAME.keys()) - found.keys() - _WRITTEN:
            found[name] = _BY_NAME[name]
            queue.append(found[name].expr)
    return tuple(found.values())


def levels(rules: Sequence[Recording]) -> Iterator[Sequence[Recording]]:
    """Those that need no other first, then those made of them, and so on. What a rule recorded itself is not there."""
    left = {rule.record: rule for rule in rules}
    while left:
        ready = [rule for rule in left.values() if not set(_NAME.findall(rule.expr)) & (left.keys() - {rule.record})]
        if not ready:
            raise ValueError(f"made of each other: {sorted(left)}")
        yield ready
        left = {name: rule for name, rule in left.items() if rule not in ready}


def backfill(url: str, rules: Sequence[Recording], span: Mapping[str, float], folder: Path) -> None:
    """Ask for each rule over the whole span, and write what it says as blocks for a Prometheus that starts later."""
    path = folder / "recorded.txt"
    with path.open("w") as text:
        for rule in rules:
            text.write(f"# TYPE {rule.record} unknown\n")
            for series in _series(url, rule, span):
                labels = {**series["metric"]}
                labels.pop("__name__", None)
                inside = ",".join(f'{name}="{value}"' for name, value in labels.items())
                text.writelines(f"{rule.record}{{{inside}}} {value} {time}\n" for time, value in series["values"])
        text.write("# EOF\n")
    command = ["tsdb", "create-blocks-from", "openmetrics", "-q", path, folder / "prometheus"]
    subprocess.run([program("promtool"), *command], check=True, capture_output=True)
    path.unlink()


def _series(url: str, rule: Recording, span: Mapping[str, float]) -> list[dict[str, Any]]:
    answer = requests.post(f"{url}/api/v1/query_range", data={"query": rule.expr, **span}, timeout=900).json()
    if answer["status"] != "success":
        raise RuntimeError(f"{rule.record}: {answer}")
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found
