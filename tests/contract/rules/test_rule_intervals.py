"""What makes rules cheap changes no sum: counters are rated rarely, and every second counts as much as every other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import promql_parser as promql

from deploy.prometheus.recordings import GROUPS, INTERVAL, RATE_INTERVAL, Group
from tests.contract.dashboards.inference import walk

WINDOW, MINUTE = 300, 60
RATED = int(RATE_INTERVAL.removesuffix("s"))
STATES = {"gpu_state_seconds_total", "gpu_workload_gpu_seconds_total"}
"""The counters with most series: one for each state."""


def rated(group: Group) -> Iterator[str]:
    """Counters whose rate a rule of the group takes, once for each rule."""
    for rule in group.rules:
        calls = [each for each in walk(promql.parse(rule.expr)) if isinstance(each, promql.Call)]
        rates = [call for call in calls if call.func.name == "rate"]
        yield from {
            inner.vector_selector.name
            for call in rates
            for inner in walk(call)
            if isinstance(inner, promql.MatrixSelector)
        }


def test_each_second_is_told_by_the_rates_of_five_minutes() -> None:
    """So `sum_over_time(x[1h]) / 60` is hours, though the rates that minutes add up are not taken each minute."""
    for phase in range(MINUTE):
        minutes = [number * MINUTE + phase for number in range(40)]
        looked_at = [minute // RATED * RATED for minute in minutes]  # when the rates that a minute finds were taken
        told = {
            sum(taken - WINDOW <= second < taken for taken in looked_at) for second in range(4 * WINDOW, 5 * WINDOW)
        }

        assert told == {WINDOW // MINUTE}


def test_counters_of_states_are_rated_once_and_not_each_minute() -> None:
    assert {name for group in GROUPS if group.interval == INTERVAL for name in rated(group)} & STATES == set()
    assert [name for group in GROUPS for name in rated(group) if name in STATES] == sorted(STATES)


def test_no_counter_of_gpus_is_rated_by_more_than_two_recordings() -> None:
    times = Counter(name for group in GROUPS for name in rated(group) if name.startswith("gpu_"))

    assert {name: count for name, count in times.items() if count > 2} == {}
