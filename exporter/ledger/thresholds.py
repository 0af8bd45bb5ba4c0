"""The thresholds of the states as a dataclass, for the configuration."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, make_dataclass
from typing import TYPE_CHECKING

from exporter.ledger.states import THRESHOLDS, limits

AMOUNTS = frozenset(each.name for each in THRESHOLDS if each.maximum == math.inf)
"""Names of the thresholds that are no fractions."""

if TYPE_CHECKING:

    @dataclass(frozen=True)
    class Thresholds:
        """One field for each threshold; its metadata has the help. Raises ValueError for a value out of range."""

        def __init__(self, **values: float) -> None: ...

else:

    def _check(given: object) -> None:
        limits(vars(given))

    Thresholds = make_dataclass(
        "Thresholds",
        [(each.name, float, field(default=each.default, metadata={"help": each.help})) for each in THRESHOLDS],
        namespace={"__post_init__": _check},
        frozen=True,
    )
