"""The ledger's states as Grafana shows them. Order and advice are the ledger's own; title and colour are said here."""

from __future__ import annotations

from grafana_foundation_sdk.models import dashboard as model

from deploy.prometheus.states import BUSY, LOST, regex
from exporter.ledger.states import RULES

# fmt: off
_SHOWN = {
    "unobserved":            ("Unobserved",           "#464C54"),
    "free":                  ("Free",                 "#8E99A8"),
    "held_idle":             ("Held idle",            "#F2495C"),
    "wait_storage":          ("Waits for storage",    "#FF9830"),
    "wait_cpu":              ("Waits for CPU",        "#F2CC0C"),
    "wait_peer":             ("Waits for peers",      "#B877D9"),
    "wait_other":            ("Waits, cause unknown", "#C8A27C"),
    "throttled_thermal":     ("Throttled by heat",    "#C4162A"),
    "throttled_power_brake": ("Power brake",          "#8F3BB8"),
    "communication":         ("Communication",        "#1F9E89"),
    "memory_bound":          ("Memory bound",         "#5794F2"),
    "small_kernels":         ("Small kernels",        "#96D98D"),
    "busy":                  ("Busy",                 "#37872D"),
}
# fmt: on
"""Grey: nobody's. Warm: wasted. Blue and light green: busy, and could be better. Green: busy."""

STATES = tuple(rule.state for rule in RULES)
"""In the ledger's order; a state's code in a state timeline is its place here."""
TITLES = {state: _SHOWN[state][0] for state in STATES}
COLOURS = {state: _SHOWN[state][1] for state in STATES}
ADVICE = {rule.state: rule.advice for rule in RULES}

LOST_REGEX = regex(LOST)
"""Held, and nothing or less than could be came of it: what the recording rules call waste."""
BUSY_REGEX = regex(BUSY)
HELD_REGEX = "|".join(state for state in STATES if state not in {"free", "unobserved"})


def by_name() -> list[model.ValueMapping]:
    """For cells and bars whose value is a state's name."""
    return [_mapping({state: state for state in STATES})]


def by_code() -> list[model.ValueMapping]:
    """For state timelines."""
    return [_mapping({str(index): state for index, state in enumerate(STATES)})]


def _mapping(state_of: dict[str, str]) -> model.ValueMap:
    return model.ValueMap(
        options={
            value: model.ValueMappingResult(text=TITLES[state], color=COLOURS[state], index=index)
            for index, (value, state) in enumerate(state_of.items())
        }
    )


def advice_by_name() -> list[model.ValueMapping]:
    """For cells that turn a state's name into what its owner should do."""
    options = {
        state: model.ValueMappingResult(text=text, index=index) for index, (state, text) in enumerate(ADVICE.items())
    }
    return [model.ValueMap(options=options)]


def codes() -> str:
    """PromQL: a constant vector with one element per state, whose value is the state's code."""
    return " or ".join(
        f'label_replace(vector({index}), "state", "{state}", "", "")' for index, state in enumerate(STATES)
    )
