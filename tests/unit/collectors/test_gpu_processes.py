"""Processes on GPUs: memory counted once, utilization without garbage, and no more rows than asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.attribution.families import PROCESS_FAMILIES, ProcessRow, limit
from exporter.attribution.owner import NOBODY, OWNER_LABELS, Owner
from exporter.collectors.base import Tick
from exporter.collectors.processes import Processes, by_process, read_processes
from exporter.driver.interface import Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, FakeInstance

COMPUTE = "nvmlDeviceGetComputeRunningProcesses"
GRAPHICS = "nvmlDeviceGetGraphicsRunningProcesses"
MPS = "nvmlDeviceGetMPSComputeRunningProcesses"
USED = "nvmlDeviceGetProcessUtilization"
NOW = 1_700_000_000.0


def holds(pid: int, memory: int | None) -> Record:
    return Record(pid=pid, usedGpuMemory=memory)


def sample(pid: int, second: float, sm: int, mem: int = 0, **more: int) -> Record:
    stamp = round((NOW + second) * 1e6)
    return Record(pid=pid, timeStamp=stamp, smUtil=sm, memUtil=mem, encUtil=0, decUtil=0, **more)


def at(second: float, device: FakeDevice, previous: Processes | None = None) -> Processes:
    return read_processes(device, previous, Tick(NOW + second, 1.0 if previous else 0.0))


def test_a_process_in_two_lists_counts_once() -> None:
    device = FakeDevice({COMPUTE: (holds(1, 100), holds(2, None)), GRAPHICS: (holds(1, 100), holds(3, 5)), MPS: ()})
    running = at(0, device).running
    assert [(p.pid, p.target, p.memory_bytes) for p in running] == [
        (1, "GPU-1", 100),
        (2, "GPU-1", None),
        (3, "GPU-1", 5),
    ]


def test_memory_that_one_list_knows_is_known() -> None:
    device = FakeDevice({COMPUTE: (holds(1, None),), GRAPHICS: (holds(1, 7),)})
    assert at(0, device).running[0].memory_bytes == 7


def test_under_mig_only_the_instances_are_asked() -> None:
    one = FakeInstance({COMPUTE: (holds(1, 10),)}, uuid="MIG-1")
    two = FakeInstance({COMPUTE: (holds(1, 20), holds(2, 30))}, uuid="MIG-2")
    parent = FakeDevice({COMPUTE: (holds(1, 30), holds(2, 30)), USED: ()}, instances=(one, two))
    running = at(0, parent).running
    assert [(p.target, p.pid, p.memory_bytes) for p in running] == [
        ("MIG-1", 1, 10),
        ("MIG-2", 1, 20),
        ("MIG-2", 2, 30),
    ]
    assert [p.utilization for p in running] == [{}, {}, {}]
    assert parent.asked == []


def test_no_process_list_at_all_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        at(0, FakeDevice())


def test_utilization_is_asked_from_the_newest_sample_on() -> None:
    answers: list[Any] = [(sample(1, 0.5, 50, 20, jpgUtil=10, ofaUtil=0),), (sample(1, 1.5, 70),), ()]
    device = FakeDevice({COMPUTE: (holds(1, 1), holds(2, 1)), USED: lambda _last: answers.pop(0)})
    one = at(1, device)
    assert one.running[0].utilization == {
        "sm": 0.5,
        "memory": 0.2,
        "encoder": 0.0,
        "decoder": 0.0,
        "jpeg": 0.1,
        "ofa": 0.0,
    }
    assert one.running[1].utilization["sm"] == 0.0
    two = at(2, device, one)
    assert two.running[0].utilization["sm"] == 0.7
    three = at(3, device, two)
    assert three.running[0].utilization["sm"] == 0.7
    cursors = [args[0] for function, *args in device.asked if function == USED]
    assert cursors == [0, sample(1, 0.5, 0).timeStamp, sample(1, 1.5, 0).timeStamp]


def test_a_process_silent_for_longer_than_the_driver_samples_used_nothing() -> None:
    answers: list[Any] = [(sample(1, 0.5, 50),), (), (), ()]
    device = FakeDevice({COMPUTE: (holds(1, 1),), USED: lambda _last: answers.pop(0)})
    reading = at(1, device)
    for second in (2, 3, 4):
        reading = at(second, device, reading)
    assert reading.running[0].utilization["sm"] == 0.0


def test_samples_that_are_repeated_after_a_silence_count_once() -> None:
    """Drivers answer with their whole buffer again."""
    old = sample(1, 0.5, 50)
    answers: list[Any] = [(old,), (), (old,), (old,)]
    device = FakeDevice({COMPUTE: (holds(1, 1),), USED: lambda _last: answers.pop(0)})
    reading = at(1, device)
    for second in (2, 3, 4):
        reading = at(second, device, reading)

    assert reading.running[0].utilization["sm"] == 0.0
    assert [args[0] for function, *args in device.asked if function == USED][-1] == old.timeStamp


def test_garbage_and_stale_samples_are_dropped() -> None:
    samples = (sample(1, 1.0, 50), sample(2, 1.0, 4_000_000), sample(3, -60.0, 99), sample(4, 1.0, 20, mem=101))
    assert by_process(samples, 0) == {1: {"sm": 0.5, "memory": 0.0, "encoder": 0.0, "decoder": 0.0}}
    assert by_process(samples, sample(1, 1.0, 0).timeStamp) == {}


def test_several_samples_of_a_process_are_averaged() -> None:
    assert by_process((sample(1, 1.0, 50), sample(1, 1.5, 100)), 0)[1]["sm"] == 0.75


def test_without_process_utilization_nothing_is_made_up_and_the_call_is_rare() -> None:
    device = FakeDevice({COMPUTE: (holds(1, 1),)})
    reading = at(0, device)
    for second in range(1, 10):
        reading = at(second, device, reading)
    assert reading.running[0].utilization == {}
    assert device.functions.count(USED) == 2


def test_lists_are_asked_again_when_somebody_new_computes_and_once_only() -> None:
    listed = [(), (holds(1, 1),)]
    samples: list[Any] = [(), (sample(1, 1.5, 50), sample(2, 1.5, 50)), (sample(2, 2.5, 50),), (sample(2, 3.5, 50),)]
    device = FakeDevice({COMPUTE: lambda: listed.pop(0), USED: lambda _last: samples.pop(0)})
    reading = at(1, device)
    for second in (2, 3, 4):
        reading = at(second, device, reading)
    assert [p.pid for p in reading.running] == [1]
    assert device.functions.count(COMPUTE) == 2


def test_a_clock_set_back_asks_from_the_beginning() -> None:
    device = FakeDevice({COMPUTE: (holds(1, 1),), USED: (sample(1, 0.5, 50),)})
    reading = at(1, device)
    at(-3600, device, reading)
    assert device.asked[-1] == (USED, 0)


OWNER = Owner(workload="ns/pod", kind="pod", namespace="ns", pod="pod")


def row(pid: int, memory: int | None = 0, uuid: str = "GPU-1", **more: Any) -> ProcessRow:
    plain = ProcessRow("0", uuid, str(pid), "python3", OWNER, memory, {"sm": 0.2}, 1.0, 10, NOW)
    return replace(plain, **more)


def test_rows_over_the_limit_are_summed_per_gpu() -> None:
    rows = [row(1, 10), row(2, 30), row(3, None), row(4, 5), row(9, 1, uuid="GPU-2")]
    kept = limit(rows, 2)
    assert [(r.uuid, r.pid, r.memory_bytes) for r in kept] == [
        ("GPU-1", "2", 30),
        ("GPU-1", "1", 10),
        ("GPU-1", "other", 5),
        ("GPU-2", "9", 1),
    ]
    other = kept[2]
    assert (other.command, other.owner, other.cpu_seconds, other.start_time) == ("", NOBODY, None, None)
    assert other.resident_bytes == 20
    assert other.utilization == {"sm": pytest.approx(0.4)}


def test_a_process_on_two_instances_is_one_row() -> None:
    kept = limit([row(1, 10), row(1, 20), row(2, 5)], 8)
    assert [(r.pid, r.memory_bytes) for r in kept] == [("1", 30), ("2", 5)]
    assert kept[0].cpu_seconds == 1.0
    assert kept[0].resident_bytes == 10


@given(
    st.lists(st.tuples(st.integers(1, 20), st.one_of(st.none(), st.integers(0, 1000)), st.sampled_from("ab"))),
    st.integers(0, 5),
)
def test_the_limit_loses_no_memory_and_repeats_no_labels(rows: list[tuple[int, int | None, str]], most: int) -> None:
    made = [row(pid, memory, uuid=uuid) for pid, memory, uuid in rows]
    kept = limit(made, most)
    assert sum(r.memory_bytes or 0 for r in kept) == sum(r.memory_bytes or 0 for r in made)
    assert len({r.labels for r in kept}) == len(kept)
    assert all(sum(r.uuid == uuid for r in kept) <= most + 1 for uuid in "ab")


def test_families_carry_device_process_and_owner() -> None:
    published = {family.name: family.collect([row(1, 10), row(2, None)]) for family in PROCESS_FAMILIES}
    labels = ("0", "GPU-1", "1", "python3", *OWNER.labels)
    assert [(s.labels, s.value) for s in published["gpu_process_memory_bytes"]] == [(labels, 10)]
    assert published["gpu_process_utilization_ratio"][0].labels == (*labels, "sm")
    assert len(published["gpu_process_start_time_seconds"]) == 2
    assert all(family.all_labels[:4] == ("gpu", "uuid", "pid", "command") for family in PROCESS_FAMILIES)
    assert all(family.all_labels[4:16] == OWNER_LABELS for family in PROCESS_FAMILIES)
