"""Which mutants are tried."""

from __future__ import annotations

import pytest

from tests.mutation.run import SEED, sample

NAMES = [f"exporter.ledger.claims.x_{function}__mutmut_{number}" for function in "abcdefghij" for number in range(20)]


def test_sample_stays_as_it_was_but_for_what_was_changed() -> None:
    before = sample(NAMES, 60, SEED)
    after = sample([name for name in NAMES if "x_c_" not in name], 60, SEED)

    assert {name for name in before if "x_c_" not in name} <= set(after)
    assert len(before) == len(after) == 60


def test_another_seed_is_another_sample() -> None:
    assert set(sample(NAMES, 60, SEED)) != set(sample(NAMES, 60, SEED + 1))


@pytest.mark.parametrize("size", [0, len(NAMES), len(NAMES) + 1])
def test_all_are_tried_where_all_are_asked_for(size: int) -> None:
    assert sorted(sample(NAMES, size, SEED)) == sorted(NAMES)
