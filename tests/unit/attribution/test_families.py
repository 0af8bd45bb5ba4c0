"""The workload families: what is shown, and what is absent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.families import (
    OWNER_FAMILIES,
    OwnerRow,
    WorkloadRow,
    label_names,
    workload_families,
)
from exporter.attribution.owner import NOBODY, OWNER_LABELS, Owner, WorkloadInfo
from exporter.host.model import HostUsage
from tests.attribution_kit.nodes import gpu, instance

ALICE = Owner("slurm:7", "slurm", slurm_job="7", user="alice")
BOB = Owner("ml/train", "pod", namespace="ml", pod="train", container="main")
USAGE = HostUsage(12.5, 4.0, 1 << 30, 1 << 32, 999, pressure_seconds={"io": 1.5, "cpu": 0.5})
ROW = WorkloadRow(ALICE, WorkloadInfo(time_limit_seconds=86400.0, job_name="x"), USAGE, 1 << 20, 1.5, 3)


def shown(rows: list[WorkloadRow]) -> dict[str, list[float]]:
    found = {family.name: [sample.value for sample in family.collect(rows)] for family in workload_families()}
    return {name: values for name, values in found.items() if values}


def test_running_workload_shows_all_there_is() -> None:
    assert shown([ROW]) == {
        "gpu_workload_info": [1],
        "gpu_workload_memory_bytes": [1 << 20],
        "gpu_workload_allocated_gpus": [1.5],
        "gpu_workload_processes": [3],
        "gpu_workload_cpu_seconds_total": [12.5],
        "gpu_workload_cpu_limit_cores": [4.0],
        "gpu_workload_resident_memory_bytes": [1 << 30],
        "gpu_workload_memory_limit_bytes": [1 << 32],
        "gpu_workload_read_bytes_total": [999],
        "gpu_workload_pressure_seconds_total": [1.5, 0.5],
    }


def test_what_the_host_does_not_tell_is_absent() -> None:
    assert set(shown([replace(ROW, usage=HostUsage())])) == {
        "gpu_workload_info", "gpu_workload_memory_bytes", "gpu_workload_allocated_gpus", "gpu_workload_processes",
    }  # fmt: skip


def test_ended_workload_keeps_its_totals_and_has_nothing() -> None:
    found = shown([ROW.ended()])

    assert found["gpu_workload_cpu_seconds_total"] == [12.5]
    assert (
        found["gpu_workload_allocated_gpus"],
        found["gpu_workload_processes"],
        found["gpu_workload_memory_bytes"],
    ) == (
        [0],
        [0],
        [0],
    )
    assert "gpu_workload_resident_memory_bytes" not in found
    assert "gpu_workload_cpu_limit_cores" not in found


def test_nobody_is_no_workload() -> None:
    assert shown([replace(ROW, owner=NOBODY)]) == {}


def test_pod_labels_are_columns_fixed_at_start() -> None:
    info = workload_families(("app.kubernetes.io/name", "team"))[0]
    rows = [replace(ROW, owner=BOB, info=WorkloadInfo(pod_labels=(("team", "vision"),)))]

    sample = info.collect(rows)[0]
    assert dict(zip(info.all_labels, sample.labels, strict=True)) | {} == {
        **dict.fromkeys(info.all_labels, ""),
        **dict(zip(OWNER_LABELS, BOB.labels, strict=True)),
        "trust": "exact",
        "inferred": "false",
        "label_team": "vision",
    }
    assert "label_app_kubernetes_io_name" in info.all_labels


@given(st.lists(st.text(min_size=1)))
def test_any_label_names_make_a_family(labels: list[str]) -> None:
    names = label_names(labels)

    assert len(set(names.values())) == len(set(labels))
    workload_families(labels)


def test_long_time_limit_is_written_out() -> None:
    row = replace(ROW, info=WorkloadInfo(time_limit_seconds=2592000.0))
    info = workload_families()[0]

    assert dict(zip(info.all_labels, info.collect([row])[0].labels, strict=True))["time_limit_seconds"] == "2592000"


def share(rows: list[OwnerRow]) -> dict[str, dict[tuple[str, str], float]]:
    found: dict[str, dict[tuple[str, str], float]] = {}
    for family in OWNER_FAMILIES:
        for sample in family.collect(rows):
            labels = dict(zip(family.all_labels, sample.labels, strict=True))
            found.setdefault(family.name, {})[labels["uuid"], labels["workload"]] = sample.value
    return found


def test_shares_of_a_gpu() -> None:
    target = gpu(0)
    parts = ((ALICE, 0.25), (BOB, 0.75), (NOBODY, 0.0))
    rows = [OwnerRow(target, "", owner, part) for owner, part in parts]

    assert share(rows) == {"gpu_allocation_ratio": {(target.uuid, "slurm:7"): 0.25, (target.uuid, "ml/train"): 0.75}}


def test_who_uses_what_he_was_not_given_is_a_series_of_the_gpu() -> None:
    first, second = instance(2, 1), instance(2, 2)
    rows = [
        OwnerRow(first, "1g.10gb", ALICE, 1.0),
        OwnerRow(first, "1g.10gb", BOB, 0.0, unallocated=True),
        OwnerRow(second, "1g.10gb", BOB, 0.0, unallocated=True),
    ]

    assert share(rows)["gpu_unallocated_use"] == {(gpu(2).uuid, "ml/train"): 1}


def test_owner_of_mig_instances_has_their_part_of_the_gpu_once() -> None:
    whole, first, second = gpu(2), instance(2, 1), instance(2, 2)
    rows = [
        OwnerRow(whole, "", ALICE, 1.0),
        OwnerRow(first, "1g.10gb", ALICE, 1.0),
        OwnerRow(second, "1g.10gb", ALICE, 0.5),
        OwnerRow(second, "1g.10gb", BOB, 0.5),
    ]
    found = share(rows)

    assert found["gpu_allocation_ratio"] == pytest.approx(
        {(whole.uuid, "slurm:7"): 1.5 / 7, (whole.uuid, "ml/train"): 0.5 / 7}
    )
    assert found["gpu_mig_allocation_ratio"] == {
        (first.uuid, "slurm:7"): 1.0,
        (second.uuid, "slurm:7"): 0.5,
        (second.uuid, "ml/train"): 0.5,
    }


def test_every_family_has_the_owners_labels() -> None:
    assert all(set(OWNER_LABELS) <= set(family.all_labels) for family in (*workload_families(), *OWNER_FAMILIES))


def test_workload_of_which_more_was_told_has_one_row_of_information() -> None:
    nameless, named = ALICE._replace(user=""), ALICE
    before = replace(ROW, owner=nameless)
    (info,) = [family for family in workload_families() if family.name == "gpu_workload_info"]
    users = {
        len(rows): [sample.labels[OWNER_LABELS.index("user")] for sample in info.samples(rows)]
        for rows in ([before], [before.ended(), ROW], [ROW.ended(), before.ended(), ROW.ended()])
    }

    assert users == {1: [""], 2: [named.user], 3: [named.user]}
