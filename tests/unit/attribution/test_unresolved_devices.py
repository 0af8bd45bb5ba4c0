"""What was given and cannot be found here is counted with the reason, and held by nobody."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.attribution.devices import DeviceName, Devices, device_of
from exporter.attribution.kubernetes.allocations import (
    MIG_PLACE,
    NOT_HERE,
    REASONS,
    UNKNOWN_ID,
    PodAllocations,
    pod_allocations,
)
from exporter.attribution.kubernetes.pod_resources import PodDevice
from exporter.attribution.kubernetes.root import PodPlace
from exporter.attribution.kubernetes.source import KubernetesView
from tests.attribution_kit.nodes import gpu, instance

A = gpu(0)
SMALL, LIKE_IT, LARGE = instance(1, 7), instance(1, 8), instance(1, 1, "4g.40gb")
EXTRA = instance(2, 9, "1g.10gb+me")
DEVICES = Devices([A, SMALL, LIKE_IT, LARGE, EXTRA])
STATIC, DYNAMIC = "gpu-1-mig-19-4-1", "gpu-1-mig-1g10gb-19-4"


def found(name: DeviceName, claimable: Mapping[str, str] | None = None) -> tuple[set[str], dict[str, int]]:
    """UUIDs a pod with this device holds, and what was counted."""
    view = KubernetesView(given=(PodDevice("ml", "train", "main", name),), claimable=claimable or {})
    found = pod_allocations(view, DEVICES)
    allocated, unresolved = found.given, found.unresolved
    return set(allocated.get(PodPlace("ml", "train", "main"), {})), {key: n for key, n in unresolved.items() if n}


def named(text: str) -> DeviceName:
    made = device_of(text)
    assert made
    return made


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (A.uuid, A),
        ("gpu-0", A),
        ("gpu-1-mig-4g40gb-5-0", LARGE),
        ("gpu-2-mig-1g10gb-me-20-0", EXTRA),
        ("gpu-2-mig-20-0-1", EXTRA),  # the only instance of that GPU
    ],
)
def test_device_told_without_doubt_is_held(text: str, target: DeviceName) -> None:
    assert found(named(text)) == ({target.uuid}, {})


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (DeviceName(), UNKNOWN_ID),
        (named(STATIC), MIG_PLACE),
        (named(DYNAMIC), MIG_PLACE),
        (named("gpu-1-mig-2g20gb-14-0"), MIG_PLACE),
        (named("GPU-99999999-0000-0000-0000-000000000000"), NOT_HERE),
        (named("gpu-7"), NOT_HERE),
    ],
)
def test_what_is_not_found_is_counted_and_nobodys(name: DeviceName, reason: str) -> None:
    assert found(name) == (set(), {reason: 1})


@pytest.mark.parametrize("text", [STATIC, DYNAMIC])
def test_slices_tell_which_of_like_instances_a_claim_means(text: str) -> None:
    assert found(named(text), {text: LIKE_IT.uuid.lower()}) == ({LIKE_IT.uuid}, {})


def test_uuid_of_an_earlier_mig_layout_names_no_instance() -> None:
    """The reason has the ResourceSlices read again: the instance at this place has another UUID now."""
    earlier = "MIG-99999999-0000-5000-8000-000000000000"

    assert found(named(STATIC), {STATIC: earlier}) == (set(), {MIG_PLACE: 1})


def test_every_reason_is_there_with_zero_while_all_is_well() -> None:
    assert pod_allocations(KubernetesView(), DEVICES) == PodAllocations(unresolved=dict.fromkeys(REASONS, 0))
