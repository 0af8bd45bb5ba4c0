"""The workload of a pod by its name alone, always inferred.

Only endings that a controller or the API server generates are removed. A number at the end is kept: people write
`llama-2` and `llama-3` themselves, and a StatefulSet's pods look the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_RANDOM = "-(?![0-9]{5})[bcdfghjklmnpqrstvwxz2456789]{5}"
"""What the API server appends for `generateName`: no vowels and no digits that look like letters.

Five digits are no such ending: one random ending in 850 has digits only, and people number their runs.
"""
_HASH = "-[4-9bcdf]{6,10}"
"""A ReplicaSet's hash: a decimal number in that alphabet, which leaves ten letters."""


class Guess(NamedTuple):
    """`part_of` is the whole it is a part of, as `Kind/name`; an empty kind: the name does not show it."""

    name: str
    kind: str = ""
    part_of: str = ""


class _Pattern(NamedTuple):
    kind: str
    pod: re.Pattern[str]


_CRON = re.compile(r"(?P<cron>.+)-[0-9]{8,10}")
_KSERVE = "-(?:predictor|transformer|explainer)(?:-default)?(?:-[0-9]{5}-deployment)?"
_MADE_CLUSTER = f"(?:(?:-raycluster)?{_RANDOM})?"
"""What KubeRay adds to the name of a RayJob or RayService for its cluster: without the word since 1.4."""
_RAY = f"{_MADE_CLUSTER}(?:-head|(?:-[a-z]*|-[a-z]+-)group(?:-[0-9]+)?-worker){_RANDOM}"
"""Groups are called `workergroup` or `gpu-group`: a word before the former is the end of the cluster's own name."""
_CLUSTER = re.compile(f"(?P<name>.+?){_MADE_CLUSTER}")
_PATTERNS = tuple(
    _Pattern(kind, re.compile(f"(?P<name>{name}){rest}"))
    for kind, name, rest in (
        ("InferenceService", ".+", f"{_KSERVE}{_HASH}{_RANDOM}"),
        ("Deployment", ".+", f"{_HASH}{_RANDOM}"),
        ("RayCluster", ".+?", _RAY),
        ("MPIJob", ".+", f"-launcher{_RANDOM}"),
        ("SparkApplication", ".+-[0-9a-f]{16}", "-(?:driver|exec-[0-9]{1,6})"),
        ("Job", ".+-[0-9]{8,10}", _RANDOM),
        ("", ".+", _RANDOM),
    )
)
"""The first that fits counts. A random end alone is a Job's, a DaemonSet's or somebody's own `generateName`."""


def guess(pod: str) -> Guess:
    """A pod that no pattern fits is its own workload."""
    return next(_guesses(pod), Guess(pod))


def _guesses(pod: str) -> Iterator[Guess]:
    for kind, pattern in _PATTERNS:
        match = pattern.fullmatch(pod)
        if match:
            name = match["name"]
            yield Guess(name, kind, whole(name) if kind == "Job" else "")


def of_ray_cluster(cluster: str) -> str:
    """The RayJob or RayService that a RayCluster of that name seems to be made for; else the cluster."""
    match = _CLUSTER.fullmatch(cluster)
    return match["name"] if match else cluster


def whole(job: str) -> str:
    """The CronJob that a Job of that name is a run of: it appends its minute."""
    match = _CRON.fullmatch(job)
    return f"CronJob/{match['cron']}" if match else ""
