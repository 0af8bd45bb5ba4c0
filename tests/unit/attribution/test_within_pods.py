"""Containers of one pod on one GPU: who runs has what the others leave, and no part is changed for nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.attribution.allocations import within_pods
from exporter.attribution.owner import Owner

ONE, TWO = (Owner("pod:a", "pod", namespace="ns", pod="a", container=name) for name in ("one", "two"))


@pytest.mark.parametrize(
    ("given", "runners", "held"),
    [
        ({ONE: 3.0, TWO: 1.0}, (ONE, TWO), {ONE: 3.0, TWO: 1.0}),
        ({ONE: 3.0, TWO: 1.0}, (TWO,), {TWO: 4.0}),
        ({ONE: 3.0, TWO: 1.0}, (), {ONE: 3.0, TWO: 1.0}),
        ({ONE: 3.0, TWO: None}, (TWO,), {TWO: None}),  # of one it is not known: so it is not of both
    ],
)
def test_part_of_each_container(
    given: Mapping[Owner, float | None], runners: tuple[Owner, ...], held: Mapping[Owner, float | None]
) -> None:
    assert within_pods(given, runners) == held
