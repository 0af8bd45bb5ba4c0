"""The table of states: its order, its groups, and the thresholds that its rows declare."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from exporter.core.units import BytesPerSecond
from exporter.host.model import ProcessSignals
from exporter.ledger import states
from exporter.ledger.states import (
    BUSY,
    BY_STATE,
    DEFAULTS,
    LOST,
    POSSIBLY_LOST,
    STATES,
    TABLE,
    THRESHOLDS,
    resolve_limits,
)
from exporter.ledger.states.host_waits import WAIT_COVER
from exporter.ledger.states.idle import unused_claim
from exporter.ledger.states.state import Evidence, Signals, Threshold, UsageHistory


def test_table_names_each_state_once() -> None:
    assert list(STATES) == list(BY_STATE)
    assert len(set(STATES)) == len({state.title for state in TABLE}) == len(TABLE)


def test_every_allocated_state_is_busy_or_lost() -> None:
    assert set(BUSY) | set(LOST) | set(POSSIBLY_LOST) == set(STATES) - {"unobserved", "free"}


def test_last_rule_of_each_time_takes_the_rest() -> None:
    assert [state.name for state in TABLE if state.of_time == "waiting"][-1] == "wait_other"
    assert [state.name for state in TABLE if state.of_time == "busy"][-1] == "computing"


def test_every_threshold_of_the_rules_is_in_a_row() -> None:
    """A rule that compares with a threshold of no row would find no value of it."""
    names = [module.name for module in pkgutil.iter_modules(states.__path__, f"{states.__name__}.")]
    declared = {
        each for name in names for each in vars(importlib.import_module(name)).values() if isinstance(each, Threshold)
    }

    assert declared == set(THRESHOLDS)
    assert len({threshold.name for threshold in THRESHOLDS}) == len(THRESHOLDS)


def test_limits_take_given_values_and_keep_defaults() -> None:
    assert resolve_limits({"wait-cover": 0.3}) == {**DEFAULTS, WAIT_COVER: 0.3}


@pytest.mark.parametrize(("name", "value"), [("hot-thread", 1.1), ("wait-cover", -0.1), ("gap-intervals", -1.0)])
def test_threshold_out_of_range_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        resolve_limits({name: value})


@pytest.mark.parametrize(("quiet_seconds", "unused"), [(599.0, 0.0), (600.0, 1.0)])
def test_program_that_loads_before_its_first_kernel_is_unused_from_ten_minutes_on(
    quiet_seconds: float, unused: float
) -> None:
    loads = ProcessSignals(hottest_thread=0.0, reading_bytes_per_second=BytesPerSecond(5e6))
    evidence = Evidence(Signals(busy=0.0), 0.0, wait=1.0, own=loads, past=UsageHistory(quiet_seconds=quiet_seconds))

    assert unused_claim(evidence, DEFAULTS) == unused
