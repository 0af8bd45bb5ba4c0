"""A scrape that fails cures nothing: whatever fires before it fires while nothing is heard, and after it.

The cases are those of cases_*.py that fire, with the scrapes of one target, and of all, cut out of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from deploy.prometheus.declaration import Alert, Severity
from deploy.prometheus.outages import keep_while_silent
from deploy.prometheus.render import ALERTS
from tests.contract.rules.case import Case
from tests.contract.rules.cases import CASES
from tests.contract.rules.missed import ALL, NOBODY, ONE, Fired, Run, watch
from tests.contract.rules.promtool import COUNT_MINUTES, complaint, minutes_of

_AFTER = 10
"""Minutes after the three scrapes in which an alert must not have begun anew."""
_SILENT = 30
"""Minutes in which nothing is heard of a fault that pages."""
_LONG = 240
"""Minutes from which on a case that is evaluated each minute takes too long."""


def _cases(alert: Alert) -> Sequence[tuple[Case, int]]:
    """The cases in which it fires, and the minute of that."""
    cases = [(case, round(minutes_of(case.at[-1]))) for case in CASES if case.alert == alert.name and case.fires]
    return [(case, fires) for case, fires in cases if alert.slow or fires < _LONG]


def _ended(before: Fired, after: Fired) -> Mapping[int, frozenset[str]]:
    """What is in `before` and not in `after`, by minute."""
    return {minute: lost for minute, labels in before.items() if (lost := labels - after[minute])}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_alert_outlives_the_three_scrapes_before_it_is_evaluated(alert: Alert, tmp_path: Path) -> None:
    step = 5 if alert.slow and alert.name not in COUNT_MINUTES else 1
    runs: list[Run] = []
    for case, fires in _cases(alert):
        evaluated = -(-(fires + 3) // step) * step
        looks = (fires, *range(evaluated, evaluated + _AFTER + 1, step))
        runs += [Run(case, looks, away, range(evaluated - 2, evaluated + 1)) for away in (NOBODY, ONE, ALL)]
    found = watch(alert.name, runs, step, tmp_path)

    whole = found[::3]
    ended = {
        (run.case.name, run.away): lost
        for run, before, after in zip(runs, (each for each in whole for _ in range(3)), found, strict=True)
        if (lost := _ended(before, after))
    }
    assert ended == {}
    assert any(all(fired.values()) for fired in whole), "no case fires for long enough to tell"


@pytest.mark.parametrize(
    "alert", [alert for alert in ALERTS if alert.severity is Severity.CRITICAL], ids=lambda alert: alert.name
)
def test_what_pages_outlives_the_silence_of_its_node(alert: Alert, tmp_path: Path) -> None:
    runs = [
        Run(case, (fires, fires + _SILENT), ALL, range(fires + 1, fires + _SILENT + 1)) for case, fires in _cases(alert)
    ]
    found = watch(alert.name, runs, 1, tmp_path)

    ended = {
        run.case.name: fired[first] - fired[last]
        for run, fired in zip(runs, found, strict=True)
        for first, last in [run.looks]
    }
    assert {name: lost for name, lost in ended.items() if lost} == {}
    assert all(fired[run.looks[0]] for run, fired in zip(runs, found, strict=True))


def test_label_of_a_ruler_makes_no_other_alert_of_the_one_that_is_held(tmp_path: Path) -> None:
    """Rulers in a pair each write what they evaluate with a label of their own, and read all of it."""
    target = 'cluster="c1", instance="n1:9836"'
    stood = {f'ALERTS_FOR_STATE{{alertname="GpuX",{target},thanos_ruler_replica="{each}"}}': "1x20" for each in "ab"}
    scraped = f'job="gpu-exporter",{target}'
    series = {**stood, f"up{{{scraped}}}": "0x20", f"target:gpu_exporter:last{{{scraped}}}": "1x20"}
    expr = keep_while_silent("GpuX", "gpu_x")
    wanted = [{"expr": expr, "eval_time": "20m", "exp_samples": [{"labels": f"{{{target}}}", "value": 1}]}]
    inputs = [{"series": name, "values": values} for name, values in series.items()]

    assert (
        complaint({"tests": [{"interval": "1m", "input_series": inputs, "promql_expr_test": wanted}]}, tmp_path) == ""
    )
