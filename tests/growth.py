"""Count what an object keeps, to see that it does not grow with things that are gone."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

_CONTAINERS = (list, tuple, set, frozenset, deque)
_WINDOW_ROUNDS = 10
"""What is kept for some time on purpose is full after the first window; the second and the last are compared."""


def entries(root: object) -> Counter[str]:
    """Return the elements of all containers that are reachable through the exporter's own objects, by attribute."""
    seen: dict[int, object] = {}
    waiting, found = [("", root)], Counter[str]()
    while waiting:
        name, each = waiting.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, (Mapping, *_CONTAINERS)):
            inside = [(name, part) for part in _elements(each)]
            found[name] += len(inside)
            waiting += inside
        else:
            waiting += _attributes(each)
    return found


def grown(root: object, next_round: Callable[[int], None], rounds: int = 30) -> Mapping[str, int]:
    """Return by how many entries each attribute grows while things come and go, one generation a round."""
    sizes: list[Counter[str]] = []
    for number in range(rounds):
        next_round(number)
        sizes.append(entries(root))
    before, after = (_largest(part) for part in (sizes[_WINDOW_ROUNDS : 2 * _WINDOW_ROUNDS], sizes[-_WINDOW_ROUNDS:]))
    return after - before


def _largest(sizes: Iterable[Counter[str]]) -> Counter[str]:
    largest = Counter[str]()
    for each in sizes:
        largest |= each
    return largest


def _elements(each: Iterable[object]) -> Iterator[object]:
    yield from each
    if isinstance(each, Mapping):
        yield from cast("Mapping[object, object]", each).values()


def _attributes(each: object) -> Iterator[tuple[str, object]]:
    kind = type(each)
    if kind.__module__.startswith("exporter."):
        names = [*getattr(each, "__dict__", {}), *(name for base in kind.__mro__ for name in _slots(base))]
        yield from ((f"{kind.__name__}.{name}", getattr(each, name, None)) for name in names)


def _slots(kind: type) -> Iterable[str]:
    slots: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots
