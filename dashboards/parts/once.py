"""One series of each thing, however many scrape its exporter or evaluate the rules: nothing is counted twice."""

from __future__ import annotations

import re

from deploy.prometheus.recordings import GROUPS
from exporter.sampling.families import families
from exporter.tools.report.definitions import REPLICAS

_OF_TARGET = ("cluster", "instance")
_LABELS = {family.name: (*_OF_TARGET, *family.all_labels) for family in families()} | {"up": _OF_TARGET}
_RECORDED = {rule.record for group in GROUPS for rule in group.rules}
_OF_EVALUATED = dict.fromkeys(_RECORDED, REPLICAS) | dict.fromkeys(
    ("ALERTS", "ALERTS_FOR_STATE"), f"job, endpoint, service, {REPLICAS}"
)
"""Labels that differ between evaluators of the same rule; of alerts also by who scraped its exporter.

Their other labels may be a site's own, by which it distinguishes its clusters.
"""
_RAW = re.compile(
    r"(?P<call>\b(?:rate|increase|delta|changes|\w+_over_time)\()?"
    r"(?<![\w:])(?P<name>[A-Za-z][\w:]*)\{[^{}]*\}(?:\[[^\]]*\])?(?: offset \$?\w+| @ end\(\))*"
    r"(?(call)\))"
)
_REDUCED = re.compile(r"\b(?:max|min)(?: (?:by|without) \([^()]*\))? ?\($")
_CHOOSES = re.compile(r"\b(?:and|unless) on \([^()]*\) \(?$")
_ALONE = re.compile(r"(?: (?:>|<|==) [\d.]+)?\)")
SAME_TARGET = "on (cluster, job, instance)"
"""Matches what was scraped together."""


def once(expr: str) -> str:
    """Every series, in place of one per target or replica the largest of those that are the same thing."""
    return _RAW.sub(_largest, expr)


def _largest(found: re.Match[str]) -> str:
    before, after = found.string[: found.start()], found.string[found.end() :]
    if _ALONE.match(after) and (_REDUCED.search(before) or _CHOOSES.search(before)):
        return found[0]
    if found["name"] in _OF_EVALUATED:
        return f"max without ({_OF_EVALUATED[found['name']]}) ({found[0]})"
    labels = _LABELS.get(found["name"])
    return f"max by ({', '.join(labels)}) ({found[0]})" if labels else found[0]
