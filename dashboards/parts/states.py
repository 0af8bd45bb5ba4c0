"""The ledger's states as Grafana shows them; order, words and colours are those of the ledger's own tables."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from deploy.prometheus.recordings_common import STATE_INDEX
from exporter.ledger.states import TABLE
from exporter.tools.report.definitions import LOST

UNREACHABLE = "unreachable"
"""Beside the states: GPUs of nodes that report nothing."""
STATES = tuple(state.name for state in TABLE)
"""States in the ledger's order; a state's code in a state timeline is its place here."""
TITLES = {state.name: state.title for state in TABLE}
COLOURS = {state.name: state.colour for state in TABLE}
STEPS = {state.name: state.step for state in TABLE}

LOST_REGEX = "|".join(LOST)
"""Allocated, and nothing or less than could be came of it: what the recording rules call waste."""


def by_name() -> list[model.ValueMapping]:
    """Return the mappings of cells and bars whose value is a state's name."""
    return [_mapping({state: state for state in STATES})]


def by_code() -> list[model.ValueMapping]:
    """Return the mappings of state timelines."""
    return [_mapping({str(index): state for index, state in enumerate(STATES)})]


def _mapping(state_of: dict[str, str]) -> model.ValueMap:
    return model.ValueMap(
        options={
            value: model.ValueMappingResult(text=TITLES[state], color=COLOURS[state], index=index)
            for index, (value, state) in enumerate(state_of.items())
        }
    )


def step_by_name() -> list[model.ValueMapping]:
    """Return the mappings from a state's name to the first thing to do about it."""
    options = {
        state: model.ValueMappingResult(text=text, index=index) for index, (state, text) in enumerate(STEPS.items())
    }
    return [model.ValueMap(options=options)]


def codes() -> str:
    """PromQL: one element per state, whose value is the state's code, over the whole time range."""
    return f"max by (state) (last_over_time({STATE_INDEX.record}[$__range] @ end()))"
