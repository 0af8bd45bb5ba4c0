"""What becomes of the alerts of a case where scrapes fail while they fire."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contract.rules.case import Case, recorded_targets
from tests.contract.rules.notation import GONE, minutes
from tests.contract.rules.promtool import NEEDS, complaint, given, minutes_of, only

NOBODY, ONE, ALL = "nobody", "one target", "all targets"
"""Who is not scraped."""

Fired = Mapping[int, frozenset[str]]
"""The labels of the alerts that fire, by minute."""

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LABELS = re.compile(r'\{((?:"(?:[^"\\]|\\.)*"|[^{}"])*)\}')
_ANSWER = re.compile(r'expr: "(?P<expr>.*)", time: (?P<at>\w+),\n\s*exp: .*\n\s*got: (?P<got>.*)')
_RUN = re.compile(r'run!=\\"([0-9]+)\\"')
_OF_TARGET = ("cluster", "site", "rack", "job", "node", "instance", "replica")
_OF_RULES = re.compile(r"ALERTS|\w+:")
"""Series that rules make: no scrape gives them, and none that fails ends them."""


@dataclass(frozen=True, slots=True)
class Run:
    """A case, the minutes of it to look at, and those in which `away` was not scraped."""

    case: Case
    looks: Sequence[int]
    away: str
    missed: Sequence[int]

    def series(self) -> Mapping[str, str]:
        """The series of the case and `up` of its targets, as they are then."""
        ups = _ups(self.case)
        known = {frozenset(_LABEL.findall(name)) for name in self.case.series if name.startswith("up{")}
        whole = dict(self.case.series)
        whole |= {up: f"1x{self.looks[-1]}" for up in ups if frozenset(_LABEL.findall(up)) not in known}
        away = {NOBODY: (), ONE: ups[:1], ALL: ups}[self.away]
        scraped = {
            name: self._cut(name, values) if self._is_away(name, away) else values for name, values in whole.items()
        }
        return {**scraped, **recorded_targets(scraped)}

    def _is_away(self, name: str, away: Sequence[str]) -> bool:
        if _OF_RULES.match(name):
            return False
        labels = set(_LABEL.findall(name))
        of_cluster = self.away == ALL and "instance=" not in name  # of kube-state-metrics
        return of_cluster or any(set(_LABEL.findall(up)) <= labels for up in away)

    def _cut(self, name: str, values: str) -> str:
        """A series that has ended, and a target that is none any more, stay so."""
        found = list(minutes(values))
        if len(found) <= self.missed[0]:
            return values
        up = name.startswith("up{")
        found += ["_" if found[-1] in GONE else "0"] * (self.missed[-1] + 1 - len(found))
        for minute in self.missed:
            if not up:
                found[minute] = "stale"
            elif found[minute] not in GONE:
                found[minute] = "0"
        return " ".join(found)


def _ups(case: Case) -> tuple[str, ...]:
    """`up` of each target of the case, in the order of their series."""
    found: dict[str, None] = {}
    for name in case.series:
        labels = dict(_LABEL.findall(name))
        if {"instance", "job"} <= set(labels) and not _OF_RULES.match(name):
            own = ",".join(f'{label}="{labels[label]}"' for label in _OF_TARGET if label in labels)
            found[f"up{{{own}}}"] = None
    return tuple(found)


def watch(alert: str, runs: Sequence[Run], step: int, folder: Path) -> list[Fired]:
    """What fires of `alert` in each run; its rules are evaluated every `step` minutes."""
    found: list[dict[int, frozenset[str]]] = [dict.fromkeys(run.looks, frozenset()) for run in runs]
    for recorded in {given(run.case) for run in runs}:
        alike = [number for number, run in enumerate(runs) if given(run.case) == recorded]
        _watch_alike(alert, {number: runs[number] for number in alike}, (step, recorded), folder, found)
    return list(found)


def _watch_alike(
    alert: str,
    runs: Mapping[int, Run],
    evaluated: tuple[int, frozenset[str]],
    folder: Path,
    found: Sequence[dict[int, frozenset[str]]],
) -> None:
    """As `watch`, of runs that bring the same recorded series."""
    step, recorded = evaluated
    rules = folder / "rules.yaml"
    chosen = only({alert, *NEEDS.get(alert, ())}, recorded)
    rules.write_text(json.dumps(chosen))
    document = {
        "rule_files": [str(rules)],
        "evaluation_interval": f"{step}m",
        "group_eval_order": [group["name"] for group in chosen["groups"]],
        "tests": [_test(alert, number, run) for number, run in runs.items()],
    }
    said = complaint(document, folder)
    answers = list(_ANSWER.finditer(said))
    assert len(answers) == said.count("expr: "), said
    for answer in answers:
        run = _RUN.search(answer["expr"])
        assert run, answer["expr"]
        at, number = round(minutes_of(answer["at"])), int(run[1])
        assert at in runs[number].looks, answer["at"]
        found[number][at] = frozenset(_LABELS.findall(answer["got"]))


def _test(alert: str, number: int, run: Run) -> dict[str, Any]:
    """Promtool tells what there was where nothing is expected; which run it was, a matcher says that selects all."""
    expr = f'ALERTS{{alertname="{alert}",alertstate="firing",run!="{number}"}}'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in run.series().items()],
        "promql_expr_test": [{"expr": expr, "eval_time": f"{look}m"} for look in run.looks],
    }
