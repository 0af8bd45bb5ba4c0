"""What NvmlDriver answers, on the fake driver library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fake_nvml.programs import answers, printed
from tests.fake_nvml.scenario import uuid

Make = Callable[..., Any]


def test_gpus_are_enumerated_with_their_sysfs_address(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.minor": 7})

    assert printed(fake, "for g in gpus: print(g.index, g.uuid, g.pci_bus_id, g.minor, g.mig, g.instances)") == [
        f"0 {uuid(0)} 0000:1a:00.0 0 None ()",
        f"1 {uuid(1)} 0000:1b:00.0 7 None ()",
    ]


def test_plain_getters_answer_plain_data(fake_nvml: Make) -> None:
    assert answers(
        fake_nvml(),
        ("nvmlDeviceGetName",),
        ("nvmlDeviceGetPowerUsage",),
        ("nvmlDeviceGetUtilizationRates",),
        ("nvmlDeviceGetEccMode",),
        ("nvmlDeviceGetMemoryAffinity", 2, 0),
        ("nvmlDeviceGetRemappedRows",),
        ("nvmlDeviceGetRowRemapperHistogram",),
        ("nvmlDeviceGetTemperatureThreshold", 1),
        ("nvmlDeviceGetCudaComputeCapability",),
        ("nvmlSystemGetDriverVersion",),
    ) == [
        "NVIDIA H100 80GB HBM3",
        "350000",
        "Record(gpu=40, memory=20)",
        "(1, 1)",
        "(1, 0)",
        "(0, 0, 0, 0)",
        "Record(max=2560, high=0, partial=0, low=0, none=0)",
        "89",
        "(9, 0)",
        "580.95.05",
    ]


def test_struct_calls_agree_with_the_layouts_of_the_drivers_header(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {"gpu.fans": 2, "gpu.fan_rpm": 2100, "gpu.fabric.clique": 5, "gpu.fabric.health_summary": 1,
         "gpu.sram.threshold_exceeded": 1, "gpu.sram.volatile_corrected": 3, "gpu.sram.bucket_other": 4}
    )  # fmt: skip

    memory, temperature, margin, fan, fabric, sram = answers(
        fake,
        ("nvmlDeviceGetMemoryInfo",),
        ("nvmlDeviceGetTemperatureV", 0),
        ("nvmlDeviceGetMarginTemperature",),
        ("nvmlDeviceGetFanSpeedRPM", 1),
        ("nvmlDeviceGetGpuFabricInfoV",),
        ("nvmlDeviceGetSramEccErrorStatus",),
    )

    assert memory == "Record(total=85520809984, reserved=535822336, free=63510151168, used=21474836480)"
    assert (temperature, margin, fan) == ("45", "40", "2100")
    assert fabric == (
        f"Record(clusterUuid='{'ab' * 16}', status=0, cliqueId=5, state=3, healthMask=426, healthSummary=1)"
    )
    assert "volatileCor=3," in sram
    assert sram.endswith("aggregateUncBucketOther=4, bThresholdExceeded=1)")


def test_pairs_of_numbers_are_read_each_time_they_are_asked_for(fake_nvml: Make) -> None:
    """The buffers of a call that was made ready are used again."""
    code = """
ask = lambda: gpu.call("nvmlDeviceGetEncoderUtilization")[0]
print(ask(), ask())
scenario(values={"gpu.encoder_utilization": 70})
print(ask(), ask())
"""

    assert printed(fake_nvml({"gpu.encoder_utilization": 35}), code) == ["35 35", "70 70"]


def test_field_batch_reads_every_type_and_tells_absent_from_zero(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {"gpu.field.82": "u61", "gpu.field.193": "i-8", "gpu.field.4": "u7", "gpu.field.3": "untouched",
         "gpu.field.220": "d1.5", "gpu.field.74": 0, "gpu.field.75": "s-3", "gpu.field.77": "h65535",
         "gpu.field.138": 5, "gpu.field.138.2": 9, "gpu.field.97": "ERR 3", "gpu.field.83": 9007199254740992}
    )  # fmt: skip
    asked = (
        (82, 0),
        (193, 0),
        (4, 0),
        (3, 0),
        (220, 0),
        (74, 0),
        (75, 0),
        (77, 0),
        (138, 0),
        (138, 2),
        (97, 0),
        (83, 0),
    )

    expected = str((61, -8, 7, None, 1.5, 0, -3, 65535, 5, 9, None, 9007199254740992))
    assert answers(fake, ("nvmlDeviceGetFieldValues", asked), ("nvmlDeviceGetFieldValues", asked)) == [expected] * 2


def test_field_batch_is_one_driver_call(fake_nvml: Make) -> None:
    fake = fake_nvml()
    answers(fake, ("nvmlDeviceGetFieldValues", ((82, 0), (83, 0), (230, 0))))

    assert fake.calls().count("nvmlDeviceGetFieldValues gpu0") == 1


def test_samples_are_those_newer_than_the_last(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.utilization": "square 0 100 1 0.5", "gpu.sample_period_ms": 50, "epoch": 1000})

    printed_ = printed(
        fake,
        """
all = gpu.call("nvmlDeviceGetSamples", 1, 0)
print(len(all), all == tuple(sorted(all)), {value for _, value in all} >= {0, 100})
print(gpu.call("nvmlDeviceGetSamples", 1, all[89][0])[:10] == all[90:])
print(gpu.call("nvmlDeviceGetSamples", 1, int(time.time() * 1e6) + 10_000_000))
""",
    )
    assert printed_ == ["100 True True", "True", "()"]


def test_process_lists_and_their_use(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {"gpu0.process.0": "4392 C 20937965568 100 20 5 6", "gpu0.process.1": "77 G -1", "gpu.process_garbage": 1}
    )

    compute, graphics, mps, use = answers(
        fake,
        ("nvmlDeviceGetComputeRunningProcesses",),
        ("nvmlDeviceGetGraphicsRunningProcesses",),
        ("nvmlDeviceGetMPSComputeRunningProcesses",),
        ("nvmlDeviceGetProcessUtilization", 5),
    )

    assert compute == "(Record(pid=4392, usedGpuMemory=20937965568, gpuInstanceId=None, computeInstanceId=None),)"
    assert graphics == "(Record(pid=77, usedGpuMemory=None, gpuInstanceId=None, computeInstanceId=None),)"
    assert mps == "()"
    assert use.count("Record") == 1  # the stale and the absurd sample are dropped
    assert "smUtil=100, memUtil=20, encUtil=5, decUtil=6" in use


def test_more_processes_than_there_was_room_for(fake_nvml: Make) -> None:
    fake = fake_nvml({f"gpu0.process.{k}": f"{1000 + k} C {k}" for k in range(60)})

    code = "print([p.pid - 1000 for p in gpu.call('nvmlDeviceGetComputeRunningProcesses')])"
    assert printed(fake, code) == [str([*range(60)])]


def test_no_new_process_samples_is_no_failure(fake_nvml: Make) -> None:
    assert answers(fake_nvml(), ("nvmlDeviceGetProcessUtilization", 0)) == ["()"]


@pytest.mark.parametrize("branch", ["450", "470", "610"])
def test_process_lists_of_every_driver_generation(fake_nvml: Make, branch: str) -> None:
    fake = fake_nvml({"gpu0.process.0": "1 C 100", "gpu0.process.1": "2 C 200"}, branch)

    code = "print([(p.pid, p.usedGpuMemory) for p in gpu.call('nvmlDeviceGetComputeRunningProcesses')])"
    assert printed(fake, code) == ["[(1, 100), (2, 200)]"]


def test_early_r535_drivers_write_wider_processes(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {"gpu0.process.0": "1 C 100", "gpu0.process.1": "2 C 200", "wide_processes": 1},
        "535",
        ["nvmlDeviceGetRunningProcessDetailList"],
    )

    code = "print([(p.pid, p.usedGpuMemory) for p in gpu.call('nvmlDeviceGetComputeRunningProcesses')])"
    assert printed(fake, code) == ["[(1, 100), (2, 200)]"]


def test_r470_driver_answers_what_it_can(fake_nvml: Make) -> None:
    fake = fake_nvml({"driver_version": "470.256.02"}, "470")

    assert answers(
        fake,
        ("nvmlDeviceGetMemoryInfo",),
        ("nvmlDeviceGetTemperatureV", 0),
        ("nvmlDeviceGetMarginTemperature",),
        ("nvmlDeviceGetCurrentClocksEventReasons",),
        ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        ("nvmlGpmMetricsGet", (1, 2)),
        ("nvmlDeviceGetGpuFabricInfoV",),
        ("nvmlDeviceGetFieldValues", ((251, 0), (269, 0), (82, 0))),
    ) == [
        "Record(reserved=None, total=85520809984, free=63510151168, used=22010658816)",
        "45",
        "UnsupportedError FUNCTION_NOT_FOUND",
        "UnsupportedError FUNCTION_NOT_FOUND",
        "0",
        "UnsupportedError FUNCTION_NOT_FOUND",
        "UnsupportedError FUNCTION_NOT_FOUND",
        "(None, None, 61)",
    ]


def test_place_in_the_rack_where_the_platform_tells(fake_nvml: Make) -> None:
    rack = {"gpu.platform.chassis": "1820325191207", "gpu.platform.slot": 12, "gpu.platform.tray": 3,
            "gpu.platform.host": 1, "gpu.platform.module": 2}  # fmt: skip
    told = answers(fake_nvml(rack), ("nvmlDeviceGetPlatformInfo",))[0]

    assert "chassisSerialNumber='1820325191207', slotNumber=12, trayIndex=3, hostId=1" in told
    assert told.endswith("moduleId=2)")
    assert answers(fake_nvml(), ("nvmlDeviceGetPlatformInfo",)) == ["UnsupportedError NOT_SUPPORTED"]


def test_older_fabric_struct_where_the_newer_is_not_known(fake_nvml: Make) -> None:
    fake = fake_nvml({"driver_version": "550.54.15"}, "550")

    assert answers(fake, ("nvmlDeviceGetGpuFabricInfoV",))[0].endswith("state=3, healthMask=426)")


@pytest.mark.parametrize(
    ("version", "fields"),
    [("575.51.03", (251, 252, 253)), ("580.65.06", (251, 252, 253)), ("580.95.05", (269, 270, 271))],
)
def test_clock_event_counters_are_found_by_driver_version(
    fake_nvml: Make, version: str, fields: tuple[int, ...]
) -> None:
    fake = fake_nvml(
        {"driver_version": version, "gpu.event_ns.sw_thermal": 11, "gpu.event_ns.hw_thermal": 12,
         "gpu.event_ns.hw_power_brake": 13, "gpu.field.251": 1, "gpu.field.269": 1}
    )  # fmt: skip

    code = """
from exporter.driver.constants import throttle_field_ids
ids = throttle_field_ids(driver.call("nvmlSystemGetDriverVersion"))
print(tuple(ids.values()), gpu.call("nvmlDeviceGetFieldValues", tuple((id, 0) for id in ids.values())))
"""
    assert printed(fake, code) == [f"{fields} (11, 12, 13)"]


def test_reading_has_two_wrappers_between_collector_and_library(fake_nvml: Make) -> None:
    code = """
import sys
from exporter.driver.checked_device import CheckedDevice
name, frames = "nvmlDeviceGetPowerUsage", []
power = driver._library.function(name)
def watched(*args):
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>": frames.append(frame.f_code.co_name); frame = frame.f_back
    return power(*args)
driver._library._functions[name] = watched
print(CheckedDevice(gpu).get(name), frames)
"""
    assert printed(fake_nvml(), code) == ["350000 ['session_guard', 'get']"]
