"""Lines of an expression: it breaks before the operators that stand outermost, so that a person can read it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINES = 6
_WIDTH = 100
"""Shorter lines are not broken."""
_SHORT = 30
"""Characters that each line has at least."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_OPERATOR = re.compile(r" (?=(?:or|and|unless) |[-+*/^] )")


@dataclass(frozen=True, slots=True)
class _Break:
    at: int
    depth: int


def lines(expr: str) -> str:
    """Return the expression on at most six lines."""
    found = tuple(_breaks(expr))
    ends = [0, len(expr)]
    while len(ends) <= MAX_LINES:
        begin, end = max(itertools.pairwise(ends), key=lambda span: span[1] - span[0])
        inside = [each for each in found if begin + _SHORT < each.at < end - _SHORT]
        if end - begin <= _WIDTH or not inside:
            break
        middle = (begin + end) / 2
        chosen = min(inside, key=lambda each: (each.depth, abs(each.at - middle)))
        ends = sorted((*ends, chosen.at))
    depths = {each.at: each.depth for each in found}
    return "\n".join("  " * depths.get(begin, 0) + expr[begin:end].strip() for begin, end in itertools.pairwise(ends))


def _breaks(expr: str) -> Iterator[_Break]:
    """Yield the blanks before binary operators, with how many parentheses are open there."""
    bare = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), expr)
    for operator in _OPERATOR.finditer(bare):
        before = bare[: operator.start()]
        yield _Break(operator.start(), sum(map(before.count, "([{")) - sum(map(before.count, ")]}")))
