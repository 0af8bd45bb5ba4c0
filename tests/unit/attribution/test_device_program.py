"""What slurmd's device program says, from its instructions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.slurm.device_program import Rule, decode
from tests.attribution_kit.bpf import program

CAPTURED = Path(__file__).parent / "data/slurmd-22.05-device-program.bin"
"""As slurmd 22.05.8 put it on the cgroup of a job that holds GPUs 2 and 3 of eight."""

rules = st.builds(Rule, st.integers(0, 4095), st.integers(0, 1 << 20), st.booleans())


def test_program_of_a_real_slurmd_allows_what_its_job_holds() -> None:
    found = decode(CAPTURED.read_bytes())

    assert {rule.minor for rule in found if rule.allowed} == {2, 3}
    assert {rule.minor for rule in found if not rule.allowed} == {0, 1, 4, 5, 6, 7}
    assert {rule.major for rule in found} == {195}


@pytest.mark.parametrize("code", [b"", b"\x00" * 7, program([])])
def test_program_without_device_rules_has_none(code: bytes) -> None:
    assert decode(code) == ()


@given(st.lists(rules, max_size=20))
def test_any_rules_are_read_back(expected: list[Rule]) -> None:
    assert decode(program(expected)) == tuple(expected)


@given(st.binary(max_size=400))
def test_any_bytes_are_survived(code: bytes) -> None:
    decode(code)
