"""A year of two nodes; `make year` is that of a hundred."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.year.simulate import year


@pytest.mark.parametrize("seed", [1, 2])
def test_year_of_a_node_has_no_false_fault_and_misses_none(seed: int, tmp_path: Path) -> None:
    wrong, happened = year("n1", seed, tmp_path)

    assert wrong == []
    assert len(happened) > 8
