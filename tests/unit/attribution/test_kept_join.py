"""A join that is kept while nothing changes is the one that would be made anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.attribution.background_source import Answer
from exporter.attribution.devices import DeviceName
from exporter.attribution.join import Attribution
from exporter.attribution.kubernetes.pod_resources import PodDevice
from exporter.attribution.kubernetes.source import Kubernetes, KubernetesSite
from exporter.attribution.ownership import Ownership
from exporter.host.model import HostProcess
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
    joined, process = Attribution(), host_process(7, cgroup("/system.slice/a.service"))
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
    joined, process = Attribution(), host_process(7, cgroup("/"))
    first = joined.join([A], {A.uuid: [7]}, of([process]), 1.0)

    later = joined.join([A], {A.uuid: [7]}, of([replace(process, **changed)]), 2.0)

    assert later.processes is not first.processes


Step = tuple[tuple[int | None, ...], tuple[int | None, ...], float]
"""Path of each process, pod that each GPU was given to, and how much later."""
one_of = st.none() | st.integers(0, 1)
steps = st.lists(
    st.tuples(
        st.tuples(*[st.none() | st.integers(0, len(PATHS) - 1)] * 3),
        st.tuples(one_of, one_of),
        st.sampled_from((1.0, 1.0, 1.0, 4.0, 20.0, 100.0)),
    ),
    min_size=1,
    max_size=5,
)


@example([((2, None, None), (0, None), 1.0), ((2, None, None), (1, None), 1.0)], [4, 1, 1, 1, 1])
@given(steps, st.lists(st.integers(1, 4), min_size=5, max_size=5))
def test_kept_join_is_what_a_new_one_would_be(steps: Sequence[Step], times: Sequence[int]) -> None:
    kept, anew = (Kubernetes(KubernetesSite(Path("/nowhere"), required=True)) for _ in range(2))
    joiners = (Attribution(kept), Attribution(anew))
    now = 1000.0
    for (paths, pods, seconds), repeated in zip(steps, times, strict=False):
        given = tuple(
            PodDevice("ml", f"train-{pod}", "main", DeviceName(uuid=target.uuid))
            for target, pod in zip((A, B), pods, strict=True)
            if pod is not None
        )
        for source in (kept, anew):
            source._poller.answer = Answer(given, now)
            source._queries = 1
        for _ in range(repeated):
            now += seconds
            hosts = _hosts(paths)
            joiners[1]._joined = None
            first, second = (each.join([A, B], {A.uuid: [7, 8], B.uuid: [8, 9]}, hosts, now) for each in joiners)
            assert first == second


def _hosts(paths: Sequence[int | None]) -> Mapping[int, HostProcess]:
    numbered = zip((7, 8, 9), paths, strict=True)
    return of(host_process(pid, cgroup(PATHS[path])) for pid, path in numbered if path is not None)
