"""One series of each thing, however many targets scrape its exporter: nothing that a panel adds up is counted twice."""

from __future__ import annotations

import re

from exporter.sampling.families import families

_OF_TARGET = ("cluster", "instance")
_LABELS = {family.name: (*_OF_TARGET, *family.all_labels) for family in families()} | {"up": _OF_TARGET}
_OF_SCRAPE = ("job", "endpoint", "service")
"""What alerts of the same thing differ in where two targets scrape its exporter. Their other labels are not declared."""
_RAW = re.compile(
    r"(?P<call>\b(?:rate|increase|\w+_over_time)\()?"
    r"(?<![\w:])(?P<name>[A-Za-z]\w*)\{[^{}]*\}(?:\[[^\]]*\])?(?: offset \$?\w+| @ end\(\))*"
    r"(?(call)\))"
)
_REDUCED = re.compile(r"\b(?:max|min)(?: by \([^()]*\))? ?\($")
_CHOOSES = re.compile(r"\b(?:and|unless) on \([^()]*\) \(?$")
_ALONE = re.compile(r"(?: (?:>|<|==) [\d.]+)?\)")
SAME_TARGET = "on (cluster, job, instance)"
"""Matches what was scraped together."""


def once(expr: str) -> str:
    """Every series that was scraped, in place of one per target the largest of those that are the same thing."""
    return _RAW.sub(_largest, expr)


def _largest(found: re.Match[str]) -> str:
    before, after = found.string[: found.start()], found.string[found.end() :]
    if _ALONE.match(after) and (_REDUCED.search(before) or _CHOOSES.search(before)):
        return found[0]
    if found["name"] in {"ALERTS", "ALERTS_FOR_STATE"}:
        return f"max without ({', '.join(_OF_SCRAPE)}) ({found[0]})"
    labels = _LABELS.get(found["name"])
    return f"max by ({', '.join(labels)}) ({found[0]})" if labels else found[0]
