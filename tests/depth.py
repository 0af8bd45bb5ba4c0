"""How far tests go: `make test` looks at a part, `make test-deep` at all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

DEEP = os.environ.get("TEST_DEPTH") == "deep"
EXAMPLES = 400 if DEEP else 40
"""Of a property that says nothing else."""


def examples(count: int) -> settings:
    """So many examples of a property whose drawing is slow; ten times as many where time does not matter."""
    return settings(max_examples=count * 10 if DEEP else count)


def share(cases: Iterable[T], number: int, of: int) -> Sequence[T]:
    """One part of the cases; all of them where time does not matter. The parts together are all cases."""
    return [case for index, case in enumerate(cases) if DEEP or index % of == number]
