"""On a node of many processes everybody has a turn, and no cycle does more than its part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.host.process import RoundRobin


def test_where_there_is_room_all_have_a_turn() -> None:
    turns = RoundRobin[str](4)

    assert [set(turns.next({"a": 1, "b": 3})) for _ in range(3)] == [{"a", "b"}] * 3


def test_who_is_new_comes_first_and_then_who_waits_longest() -> None:
    turns = RoundRobin[str](2)
    before = [list(turns.next(dict.fromkeys("abc", 1))) for _ in range(2)]

    after = [list(turns.next(dict.fromkeys("abcd", 1))) for _ in range(2)]

    assert before == [["a", "b"], ["c", "a"]]
    assert after == [["d", "b"], ["c", "a"]]


def test_one_that_is_too_large_has_a_turn_alone() -> None:
    turns = RoundRobin[str](4)

    found = Counter(name for _ in range(9) for name in turns.next({"large": 9, "a": 1, "b": 1}))

    assert min(found.values()) >= 3


@given(st.dictionaries(st.integers(0, 30), st.integers(1, 6), min_size=1), st.integers(6, 20))
def test_no_turn_is_larger_than_its_part_and_everybody_has_one(sizes: Mapping[int, int], most: int) -> None:
    turns = RoundRobin[int](most)

    rounds = [set(turns.next(sizes)) for _ in range(len(sizes))]

    assert all(sum(sizes[name] for name in each) <= most for each in rounds)
    assert set().union(*rounds) == set(sizes)


@pytest.mark.parametrize("left", ["", "c"])
def test_who_has_gone_is_forgotten(left: str) -> None:
    turns = RoundRobin[str](1)
    turns.next(dict.fromkeys("abc", 1))
    turns.next(dict.fromkeys(left, 1))

    assert set(turns._waiting) == set(left)
