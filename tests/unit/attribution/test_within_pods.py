"""Containers of one pod on one GPU: who runs has what the others leave, and no part is changed for nothing."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.attribution.join import within_pods
from exporter.attribution.owner import Owner

ONE, TWO, SIDECAR = (Owner("ns/a", "pod", "ns", "a", name) for name in ("one", "two", "sidecar"))
OTHER = Owner("ns/b", "pod", "ns", "b", "one")


@pytest.mark.parametrize(
    ("given", "runners", "allocated"),
    [
        ({ONE: 3.0, TWO: 1.0}, (ONE, TWO), {ONE: 3.0, TWO: 1.0}),
        ({ONE: 3.0, TWO: 1.0}, (TWO,), {TWO: 4.0}),
        ({ONE: 3.0, TWO: 1.0}, (), {ONE: 3.0, TWO: 1.0}),
        # an init container, a sidecar or an ephemeral one, which the kubelet does not list
        ({ONE: 1.0}, (SIDECAR,), {SIDECAR: 1.0}),
        ({ONE: 1.0}, (ONE, SIDECAR), {ONE: 1.0}),
        ({ONE: 1.0}, (OTHER,), {ONE: 1.0}),
        ({ONE: 3.0, TWO: None}, (TWO,), {TWO: None}),  # of one it is not known: so it is not of both
    ],
)
def test_part_of_each_container(
    given: Mapping[Owner, float | None], runners: tuple[Owner, ...], allocated: Mapping[Owner, float | None]
) -> None:
    assert within_pods(given, runners) == allocated
