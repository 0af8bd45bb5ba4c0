"""The options of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from exporter.config.kinds import Pairs, non_negative, ratio
from exporter.config.option import option
from exporter.ledger.thresholds import AMOUNTS, Thresholds

KINDS: Mapping[str, Callable[[str], float]] = {
    item.name.replace("_", "-"): non_negative if item.name in AMOUNTS else ratio for item in fields(Thresholds)
}
"""By the thresholds' names, as the option has them."""


def _thresholds(given: Mapping[str, Any]) -> Thresholds:
    return Thresholds(**{name.replace("-", "_"): value for name, value in given.items()})


@dataclass(frozen=True, kw_only=True)
class LedgerConfig:
    """`--ledger.*`."""

    thresholds: Thresholds = option(
        "",
        Pairs(KINDS, _thresholds),
        "Thresholds of the ledger's rules that differ from their defaults, e.g. wait-cover=0.4. A mapping in the "
        "configuration file. Names and defaults: docs/options.md.",
        metavar="NAME=NUMBER",
    )
