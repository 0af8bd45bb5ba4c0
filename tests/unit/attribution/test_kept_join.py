"""What a join shares with the one before: readers of it recompute only what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from exporter.attribution.assembly.factory import Parts, attribution_of
from exporter.attribution.owner import Ownership
from tests.attribution_kit.nodes import CONTAINER_ID, cgroup, gpu, host_process, of

A, B = gpu(0), gpu(1)
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c34{}"
PATHS = (
    "/",
    "/system.slice/a.service",
    *(f"/kubepods/pod{POD.format(number)}/{CONTAINER_ID}" for number in (0, 1)),
)


def parts(ownership: Ownership) -> Sequence[object]:
    return [getattr(ownership, name) for name in ("processes", "holders", "weights", "cgroups", "info", "unreserved")]


def test_while_nothing_changes_a_join_consists_of_the_same_objects() -> None:
    joined, process = attribution_of(Parts()), host_process(7, cgroup("/system.slice/a.service"))
    first = joined.join([A], {A.uuid: [7]}, of([process]), 1.0)

    later = joined.join([gpu(0)], {A.uuid: [7]}, of([replace(process, cpu_seconds=9.0, resident_bytes=5)]), 2.0)

    assert all(one is other for one, other in zip(parts(first), parts(later), strict=True))


@pytest.mark.parametrize(
    "changed",
    [
        {"start_time": 5.0},
        {"cgroup": cgroup("/system.slice/b.service")},
        {"command": "x"},
        {"user": "bob"},
    ],
)
def test_another_process_is_joined_anew(changed: Mapping[str, str]) -> None:
    joined, process = attribution_of(Parts()), host_process(7, cgroup("/"))
    first = joined.join([A], {A.uuid: [7]}, of([process]), 1.0)

    later = joined.join([A], {A.uuid: [7]}, of([replace(process, **changed)]), 2.0)

    assert later.processes is not first.processes
