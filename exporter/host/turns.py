"""Whose turn it is: on a node of many processes, each pass asks the host about a part of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Turns(Generic[T]):
    """Gives turns by size, `limit` in all or one alone: first to those who never had one, then to who waits longest."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: dict[T, None] = {}
        """Those who had a turn, in the order of their next one."""

    def next(self, sizes: Mapping[T, int]) -> Collection[T]:
        """Who has a turn now. Those that `sizes` does not name are forgotten."""
        if sum(sizes.values()) <= self._limit:
            self._waiting = dict.fromkeys(sizes)
            return sizes.keys()
        waiting = [name for name in self._waiting if name in sizes]
        chosen: dict[T, None] = {}
        left = self._limit
        for name in [*(name for name in sizes if name not in self._waiting), *waiting]:
            if chosen and sizes[name] > left:
                break
            chosen[name] = None
            left -= sizes[name]
        self._waiting = dict.fromkeys([*(name for name in waiting if name not in chosen), *chosen])
        return chosen.keys()
