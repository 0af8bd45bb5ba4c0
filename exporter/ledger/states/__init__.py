"""Every state of a GPU second in order of precedence: a row here is what plugs a state in.

The busy fraction of a sampling cycle goes to the rules of busy time, the rest to those of waiting time. In each group
the rules are asked in order. Each claims a part of what is left, the last one takes the remainder. The options of the
ledger, docs/diagnosis.md, the colours of dashboards and status page, and the advice of alerts and job report are made
from these rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache

from exporter.config.kinds import Pairs, non_negative, ratio
from exporter.config.option import option
from exporter.host.model import HostSignals
from exporter.ledger.states import activity, given, host_waits, idle, peers, reported
from exporter.ledger.states.state import Certainty, Limits, Signals, State, Threshold

TABLE: tuple[State, ...] = (
    given.UNOBSERVED,
    given.FREE,
    given.ALLOCATED_IDLE,
    idle.ALLOCATED_UNUSED,
    reported.WAIT_DATA,
    reported.WAIT_EVALUATION,
    reported.WAIT_CHECKPOINT,
    host_waits.WAIT_STORAGE,
    host_waits.WAIT_CPU,
    peers.WAIT_PEER,
    host_waits.WAIT_NETWORK,
    idle.WAIT_REQUESTS,
    idle.WAIT_USER,
    given.WAIT_OTHER,
    peers.WAIT_COLLECTIVE,
    peers.POSSIBLE_SPIN,
    activity.THROTTLED_THERMAL,
    activity.THROTTLED_POWER_BRAKE,
    activity.COMMUNICATION,
    activity.MEMORY_BOUND,
    activity.LOW_SM_ACTIVITY,
    activity.TENSOR_CORES_UNUSED,
    given.COMPUTING,
)

STATES = tuple(state.name for state in TABLE)
INDEX: Mapping[str, int] = {state: index for index, state in enumerate(STATES)}
BY_STATE: Mapping[str, State] = {state.name: state for state in TABLE}
OF_WAITING_TIME = tuple((INDEX[each.name], each.claim) for each in TABLE if each.of_time == "waiting" and each.claim)
OF_BUSY_TIME = tuple((INDEX[each.name], each.claim) for each in TABLE if each.of_time == "busy" and each.claim)

BUSY = tuple(state.name for state in TABLE if state.of_time == "busy" and not state.spins)
"""A kernel ran, and did something."""
LOST = tuple(state.name for state in TABLE if state.certainty in {Certainty.CERTAIN, Certainty.LIKELY})
"""Allocated, and nothing (or less than could be) came of it. What sums, ranks and prices of waste contain."""
POSSIBLY_LOST = tuple(state.name for state in TABLE if state.certainty is Certainty.POSSIBLE)
"""Allocated, and nothing ran or seemed to, which may be as it should: shown beside the waste, never in its sum."""

THRESHOLDS: tuple[Threshold, ...] = tuple(dict.fromkeys(each for state in TABLE for each in state.thresholds))
DEFAULTS: Limits = {each: each.default for each in THRESHOLDS}

_SIGNALS = tuple(item.name for item in fields(Signals))
_NO_SIGNALS = {"processes", "polling", "serves", "programs", "launchers", "connected"}
HOST_SIGNALS = frozenset(item.name for item in fields(HostSignals)) - _NO_SIGNALS
SPLITS = tuple(state for state in TABLE if state.of_time != "given" and state.claim is not given.whole_claim)
"""The states that need a signal of their own, and are folded into `computing` or `wait_other` without it."""


def resolve_limits(values: Mapping[str, float]) -> Limits:
    """Return the value of each threshold: by option name, else its default. Raises ValueError for one out of range."""
    found = {each: values.get(each.option, each.default) for each in THRESHOLDS}
    for threshold, number in found.items():
        if not 0 <= number <= threshold.maximum:
            raise ValueError(
                f"ledger threshold {threshold.option} is {number}, not between 0 and {threshold.maximum:g}"
            )
    return found


def diagnosable_splits(signals: Signals, host: Collection[str]) -> Mapping[str, bool]:
    """Return which splits can be made with these signals and with the host signals named in `host`."""
    present = {name for name in _SIGNALS if getattr(signals, name) is not None}.union(host)
    return _splits_with(frozenset(present))


@lru_cache(maxsize=256)  # the same few sets of signals come again with every cycle
def _splits_with(present: frozenset[str]) -> Mapping[str, bool]:
    known = "busy" in present
    return {state.name: known and any(present.issuperset(needed) for needed in state.needs) for state in SPLITS}


_PARSERS = {each.option: non_negative if each.maximum == math.inf else ratio for each in THRESHOLDS}


@dataclass(frozen=True, kw_only=True)
class LedgerConfig:
    """`--ledger.*`."""

    thresholds: Limits = option(
        "",
        Pairs(_PARSERS, resolve_limits),
        "Thresholds of the ledger's rules that differ from their defaults, e.g. wait-cover=0.4. A mapping in the "
        "configuration file. Names and defaults: docs/options.md.",
        metavar="NAME=NUMBER",
    )
