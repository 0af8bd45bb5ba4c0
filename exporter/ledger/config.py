"""The options of the ledger."""

from __future__ import annotations

import math
from dataclasses import dataclass

from exporter.config.kinds import Pairs, non_negative, ratio
from exporter.config.option import option
from exporter.ledger.states import THRESHOLDS, limits
from exporter.ledger.states.state import Limits

_PARSERS = {each.option: non_negative if each.maximum == math.inf else ratio for each in THRESHOLDS}


@dataclass(frozen=True, kw_only=True)
class LedgerConfig:
    """`--ledger.*`."""

    thresholds: Limits = option(
        "",
        Pairs(_PARSERS, limits),
        "Thresholds of the ledger's rules that differ from their defaults, e.g. wait-cover=0.4. A mapping in the "
        "configuration file. Names and defaults: docs/options.md.",
        metavar="NAME=NUMBER",
    )
