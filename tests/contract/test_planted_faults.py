"""The faults of `make plant` can be planted in the code as it is now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.planted.fault import Fault
from tests.planted.faults import FAULTS
from tests.planted.run import planted

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.file}: {fault.old.strip()}")
def test_fault_can_be_planted_and_its_tests_are_there(fault: Fault) -> None:
    compile(planted(fault), fault.file, "exec")

    assert all((TESTS / name).exists() for name in fault.tests.split())
