"""What `make fuzz` begins with is understood by the parser it is for: else nothing behind its first check is tried."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import TARGETS

WITHOUT_ANSWER = {"credentials"}
"""A password that is not known yet has none."""


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - WITHOUT_ANSWER))
def test_every_seed_is_understood(name: str) -> None:
    for seed in TARGETS[name].seeds:
        assert TARGETS[name].run(seed), seed
