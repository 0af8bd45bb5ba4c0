"""NvmlDriver on the fake driver library: the true ctypes path, each test in an interpreter of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml.scenario import mig_instance, node, uuid

Make = Callable[..., Any]

_OLD_BINDING = Path(__file__).resolve().parents[3] / ".cache" / "old-binding"

_OPEN = """
import os, threading, time
from dataclasses import replace
from pathlib import Path
from exporter.driver import DriverError, UnsupportedError
from exporter.nvml import NvmlDriver
from exporter.nvml.errors import nvml
from tests.fake_nvml.scenario import Scenario, mig_instance, node, uuid

scenario = lambda **changes: Scenario(Path(os.environ["FAKE_NVML_SCENARIO"]), {**node(), **changes.get("values", {})})
driver = NvmlDriver()

def shown(call, *args):
    try:
        return call(*args)
    except DriverError as error:
        return f"{type(error).__name__} {error.code}"
"""

_READ = f"{_OPEN}\ndriver.open()\ngpus = driver.devices()\ngpu = gpus[0]\n"


def answers(fake: Any, *calls: tuple[Any, ...]) -> list[str]:
    """What the first GPU answers to each call."""
    return fake.python(f"{_READ}\nfor call in {calls!r}: print(shown(gpu.call, *call))").splitlines()


def printed(fake: Any, code: str, start: str = _READ) -> list[str]:
    return fake.python(f"{start}\n{code}").splitlines()


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


def test_field_batch_reads_every_type_and_tells_absent_from_zero(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {"gpu.field.82": "u61", "gpu.field.193": "i-8", "gpu.field.4": "u7", "gpu.field.3": "untouched",
         "gpu.field.220": "d1.5", "gpu.field.74": 0, "gpu.field.75": "s-3", "gpu.field.77": "h65535",
         "gpu.field.138": 5, "gpu.field.138.2": 9, "gpu.field.97": "ERR 3", "gpu.field.83": 9007199254740992}
    )  # fmt: skip
    asked = [
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
    ]

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
        {"gpu0.process.0": "4392 C 20937965568 61 20 5 6", "gpu0.process.1": "77 G -1", "gpu.process_garbage": 1}
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
    assert "smUtil=61, memUtil=20, encUtil=5, decUtil=6" in use


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
from exporter.nvml_fields import throttle_field_ids
ids = throttle_field_ids(driver.call("nvmlSystemGetDriverVersion"))
print(tuple(ids.values()), gpu.call("nvmlDeviceGetFieldValues", tuple((id, 0) for id in ids.values())))
"""
    assert printed(fake, code) == [f"{fields} (11, 12, 13)"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (2, "UnsupportedError INVALID_ARGUMENT"),
        (3, "UnsupportedError NOT_SUPPORTED"),
        (4, "UnsupportedError NO_PERMISSION"),
        (13, "UnsupportedError FUNCTION_NOT_FOUND"),
        (1, "DriverGoneError UNINITIALIZED"),
        (9, "DriverGoneError DRIVER_NOT_LOADED"),
        (18, "DriverMismatchError LIB_RM_VERSION_MISMATCH"),
        (15, "DeviceLostError GPU_IS_LOST"),
        (16, "DeviceLostError RESET_REQUIRED"),
        (27, "DriverError NOT_READY"),
        (999, "DriverError UNKNOWN"),
        (77, "DriverError ERROR_77"),
    ],
)
def test_return_codes_are_mapped_the_same_for_all_kinds_of_calls(fake_nvml: Make, code: int, error: str) -> None:
    functions = {
        "nvmlDeviceGetPowerUsage": (),
        "nvmlDeviceGetFieldValues": (((82, 0),),),
        "nvmlDeviceGetMarginTemperature": (),
        "nvmlDeviceGetProcessUtilization": (0,),
        "nvmlDeviceGetSamples": (1, 0),
    }
    fake = fake_nvml({f"call.{function}": f"ERR {code}" for function in functions})

    assert answers(fake, *((function, *args) for function, args in functions.items())) == [error] * len(functions)


def test_missing_function_is_looked_up_once(fake_nvml: Make) -> None:
    code = """
class Counting:
    def __init__(self, library): self.library, self.asked = library, []
    def __getattr__(self, name):
        self.asked.append(name)
        return getattr(self.library, name)
counting = nvml.nvmlLib = Counting(nvml.nvmlLib)
for _ in range(3):
    gpu.get("nvmlDeviceGetMarginTemperature"), gpu.get("nvmlDeviceGetNumFans")
print(counting.asked.count("nvmlDeviceGetMarginTemperature"), counting.asked.count("nvmlDeviceGetNumFans"))
"""
    assert printed(fake_nvml(branch="470"), code) == ["1 1"]


def test_function_that_the_binding_lacks_is_an_absent_reading(fake_nvml: Make) -> None:
    code = "del nvml.nvmlDeviceGetPowerUsage\nprint([shown(gpu.call, 'nvmlDeviceGetPowerUsage') for _ in range(2)])"

    assert printed(fake_nvml(), code) == [str(["UnsupportedError FUNCTION_NOT_FOUND"] * 2)]


def test_oldest_binding_allowed_reads_what_a_new_driver_has(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.fabric.health_summary": 2, **mig_instance(1, 3, 2, "1g.10gb")})
    assert (_OLD_BINDING / "pynvml.py").exists(), "make setup-nvml"
    fake.environment["PYTHONPATH"] = str(_OLD_BINDING)

    code = """
print(nvml.__file__.split("/")[-2], hasattr(nvml, "nvmlDeviceGetTemperatureV"), gpus[1].instances[0].mig.profile)
for call in (
    ("nvmlDeviceGetTemperatureV", 0), ("nvmlDeviceGetMarginTemperature",), ("nvmlDeviceGetUtilizationRates",),
    ("nvmlDeviceGetFieldValues", ((82, 0), (230, 0))), ("nvmlDeviceGetComputeRunningProcesses",),
    ("nvmlDeviceGetHostname_v1",),
): print(shown(gpu.call, *call))
print(gpu.call("nvmlDeviceGetGpuFabricInfoV").healthSummary, driver.events(0.05))
"""
    assert printed(fake, code) == [
        "old-binding False 1g.10gb",
        "45",
        "40",
        "Record(gpu=40, memory=20)",
        "(61, 0)",
        "()",
        "UnsupportedError FUNCTION_NOT_FOUND",
        "2 ()",
    ]


def test_struct_calls_do_not_need_a_binding_that_knows_them(fake_nvml: Make) -> None:
    code = """
functions = {"nvmlDeviceGetMarginTemperature": (), "nvmlDeviceGetTemperatureV": (0,), "nvmlGpmMetricsGet": ((1,),)}
for name in functions: delattr(nvml, name)
print(*(gpu.call(name, *args) for name, args in functions.items()))
"""
    assert printed(fake_nvml(), code) == ["40 45 {}"]


def test_defect_of_the_binding_is_an_absent_reading(fake_nvml: Make) -> None:
    code = """
def broken(handle): raise TypeError("int expected instead of NoneType instance")
def newer(handle): raise nvml.NVMLLibraryMismatchError("too old")
nvml.nvmlDeviceGetPowerUsage, nvml.nvmlDeviceGetName = broken, newer
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"), shown(gpu.call, "nvmlDeviceGetName"))
"""
    assert printed(fake_nvml(), code) == ["UnsupportedError BINDING UnsupportedError FUNCTION_NOT_FOUND"]


def test_mig_instances_at_scattered_places(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {
            **mig_instance(1, 1, 3, "3g.40gb"),
            **mig_instance(1, 4, 9, "1c.2g.20gb"),
            "gpu1.process.0": "5 C 100 0 0 0 0 4",
        }
    )

    code = """
for i in gpus[1].instances:
    mig = replace(i.mig, share=round(i.mig.share, 2))
    print(i.uuid[-2:], i.parent_uuid == gpus[1].uuid, i.index, i.pci_bus_id, mig)
print(shown(gpus[1].call, "nvmlDeviceGetUtilizationRates"), gpus[1].instances[0].call("nvmlDeviceGetMemoryInfo").used)
print([i.call("nvmlDeviceGetComputeRunningProcesses") for i in gpus[1].instances])
"""
    assert printed(fake, code) == [
        "01 True 1 0000:1b:00.0 Mig(gpu_instance=3, compute_instance=0, profile='3g.40gb', share=0.43)",
        "04 True 1 0000:1b:00.0 Mig(gpu_instance=9, compute_instance=0, profile='1c.2g.20gb', share=0.14)",
        f"UnsupportedError NOT_SUPPORTED {1 << 30}",
        "[(), (Record(pid=5, usedGpuMemory=100, gpuInstanceId=9, computeInstanceId=0),)]",
    ]


def test_mig_share_by_name_where_the_driver_tells_no_attributes(fake_nvml: Make) -> None:
    fake = fake_nvml(
        {**mig_instance(0, 0, 1, "2g.12gb"), "gpu0.mig_places": 4, "call.nvmlDeviceGetAttributes_v2": "ERR 3"}
    )

    assert printed(fake, "print(gpu.instances[0].mig.share)") == ["0.5"]


def test_gpm_tells_what_happened_between_two_calls(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.gpm.3": "ERR 3", "gpu.gpm.5": "nan", **mig_instance(1, 2, 7, "1g.10gb")})

    code = """
everything = (gpu, gpus[1].instances[0])
print([device.call("nvmlGpmMetricsGet", (1, 2, 3, 5)) for device in everything])
time.sleep(0.12)
print([device.call("nvmlGpmMetricsGet", (1, 2, 3, 5)) for device in everything])
driver.close()
"""
    assert printed(fake, code) == ["[{}, {}]", "[{1: 40.0, 2: 35.0}, {1: 72.5, 2: 61.5}]"]
    allocated = fake.calls().count("nvmlGpmSampleAlloc")
    assert allocated == fake.calls().count("nvmlGpmSampleFree") == 4


def test_gpm_samples_too_close_together_keep_the_window_open(fake_nvml: Make) -> None:
    code = """
now = [5.0]
gpu.target.meter._clock = lambda: now[0]
for seconds in (0.0, 0.05, 0.05): now[0] += seconds; print(gpu.call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == ["{}", "{}", "{1: 40.0}"]


def test_gpm_window_survives_a_new_enumeration(fake_nvml: Make) -> None:
    code = """
gpu.call("nvmlGpmMetricsGet", (1,))
time.sleep(0.12)
print(driver.devices()[0].call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake_nvml(), code) == ["{1: 40.0}"]


def test_no_gpm_is_probed_once(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.gpm": 0})

    assert answers(fake, *[("nvmlGpmMetricsGet", (1,))] * 3) == ["UnsupportedError NOT_SUPPORTED"] * 3
    assert fake.calls().count("nvmlGpmQueryDeviceSupport gpu0") == 1


def test_gpu_that_hangs_in_gpm_does_not_keep_the_others_from_it(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.call.nvmlGpmSampleGet": "SLEEP 60"})

    code = """
threading.Thread(target=gpus[1].get, args=("nvmlGpmMetricsGet", (1,)), daemon=True).start()
while "nvmlGpmSampleGet gpu1" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
print(gpu.call("nvmlGpmMetricsGet", (1,)))
time.sleep(0.12)
print(gpu.call("nvmlGpmMetricsGet", (1,)))
"""
    assert printed(fake, code) == ["{}", "{1: 40.0}"]


def test_hung_gpu_leaves_the_others_and_closing_leaves_the_driver_open_under_it(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.call.nvmlDeviceGetPowerUsage": "SLEEP 60"})

    code = """
threading.Thread(target=gpus[1].get, args=("nvmlDeviceGetPowerUsage",), daemon=True).start()
while "nvmlDeviceGetPowerUsage gpu1" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
print(gpu.call("nvmlDeviceGetPowerUsage"))
driver.close()
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake, code) == ["350000", "DriverGoneError UNINITIALIZED"]
    assert "nvmlShutdown" not in fake.calls()


def test_lost_gpu_is_left_out_and_shown_again_when_it_returns(fake_nvml: Make) -> None:
    code = """
file = scenario()
file.set({"gpu0.lost": 1})
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"), gpus[1].call("nvmlDeviceGetPowerUsage"))
print([g.index for g in driver.devices()], shown(gpu.call, "nvmlDeviceGetPowerUsage"))
file.set({"gpu0.lost": 0})
print([(g.index, g.call("nvmlDeviceGetPowerUsage")) for g in driver.devices()])
"""
    assert printed(fake_nvml(), code) == [
        "DeviceLostError GPU_IS_LOST 350000",
        "[1] DeviceLostError GPU_IS_LOST",
        "[(0, 350000), (1, 350000)]",
    ]


def test_gpu_that_this_process_may_not_use_is_left_out(fake_nvml: Make) -> None:
    assert printed(fake_nvml({"gpu0.denied": 1}), "print([g.index for g in gpus])") == ["[1]"]


def test_device_that_is_shown_no_more_is_not_called_any_more(fake_nvml: Make) -> None:
    code = """
scenario(values={"gpu0.denied": 1})
print([g.index for g in driver.devices()], shown(gpu.call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake_nvml(), code) == ["[1] DeviceLostError GPU_IS_LOST"]


def test_container_that_lost_its_devices_is_a_driver_gone(fake_nvml: Make) -> None:
    fake = fake_nvml({"call.nvmlDeviceGetHandleByIndex_v2": "ERR 999"})

    assert printed(fake, "driver.open()\nprint(shown(driver.devices))", _OPEN) == ["DriverGoneError UNKNOWN"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (9, "DriverGoneError DRIVER_NOT_LOADED"),
        (18, "DriverMismatchError LIB_RM_VERSION_MISMATCH"),
        (999, "DriverGoneError UNKNOWN"),
    ],
)
def test_init_that_fails_and_recovers(fake_nvml: Make, code: int, error: str) -> None:
    fake = fake_nvml({"call.nvmlInitWithFlags": f"ERR {code}"})

    assert printed(
        fake,
        "print(shown(driver.open), shown(driver.devices)); driver.close()\n"
        "scenario(); driver.open(); print(len(driver.devices()))",
        _OPEN,
    ) == [f"{error} DriverGoneError UNINITIALIZED", "2"]


def test_no_library(fake_nvml: Make, tmp_path: Any) -> None:
    fake = fake_nvml()
    fake.environment["LD_LIBRARY_PATH"] = str(tmp_path)

    assert printed(fake, "print(shown(driver.open))", _OPEN) == ["DriverGoneError LIBRARY_NOT_FOUND"]


def test_driver_that_vanishes_and_is_loaded_again(fake_nvml: Make) -> None:
    code = """
gpu.call("nvmlGpmMetricsGet", (1,))
scenario(values={"driver_gone": 1})
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"), shown(gpu.call, "nvmlDeviceGetFieldValues", ((82, 0),)))
driver.close()
print(shown(driver.open), shown(gpu.call, "nvmlDeviceGetPowerUsage"))
scenario()
driver.open()
print(driver.devices()[0].call("nvmlDeviceGetPowerUsage"), shown(gpu.call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake_nvml(), code) == [
        "DriverGoneError UNINITIALIZED DriverGoneError UNINITIALIZED",
        "DriverGoneError DRIVER_NOT_LOADED DriverGoneError UNINITIALIZED",
        "350000 DriverGoneError UNINITIALIZED",
    ]


def test_xids_are_told_with_their_gpu(fake_nvml: Make) -> None:
    code = """
file = scenario()
print(driver.events(0.05))
file.set({"gpu1.event.0": "0 79", "gpu0.event.0": "0 31"})
print(sorted((event.uuid[-1], event.xid, abs(event.timestamp - time.time()) < 60) for event in driver.events(20)))
driver.close(); driver.open(); driver.devices()
file.set({"gpu0.event.1": "0 48"})
print([(event.uuid[-1], event.xid) for event in driver.events(20)])
"""
    assert printed(fake_nvml(), code) == ["()", "[('0', 31, True), ('1', 79, True)]", "[('0', 48)]"]


def test_events_come_again_after_a_failed_wait(fake_nvml: Make) -> None:
    fake = fake_nvml({"call.nvmlEventSetWait_v2": "ERR 15"})

    code = """
print(shown(driver.events, 0.1))
scenario(values={"gpu1.event.0": "0 79"})
print([(event.uuid[-1], event.xid) for event in driver.events(20)])
"""
    assert printed(fake, code) == ["DeviceLostError GPU_IS_LOST", "[('1', 79)]"]


def test_waiting_for_events_does_not_hold_up_closing(fake_nvml: Make) -> None:
    code = """
threading.Thread(target=lambda: shown(driver.events, 60)).start()
while "nvmlEventSetWait_v2" not in Path(os.environ["FAKE_NVML_LOG"]).read_text(): time.sleep(0.01)
driver.close()
"""
    fake = fake_nvml()
    printed(fake, code)

    assert fake.calls()[-2:] == ["nvmlEventSetFree", "nvmlShutdown"]


def test_no_gpu_with_events(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu.events": 0})

    assert printed(fake, "print(shown(driver.events, 0.1))") == ["UnsupportedError NOT_SUPPORTED"]


def test_driver_calls_are_counted(fake_nvml: Make) -> None:
    fake = fake_nvml()
    told = int(printed(fake, "gpu.call('nvmlDeviceGetPowerUsage'); print(driver.calls)")[0])

    assert told == len(fake.calls())


def test_the_view_of_mps_clients_is_switched_off(fake_nvml: Make) -> None:
    fake = fake_nvml()
    fake.environment["NVML_MPS_DEVICE_ENUMERATION"] = "1"

    code = "import ctypes; print(ctypes.CDLL(None).getenv(b'NVML_MPS_DEVICE_ENUMERATION'))"
    assert printed(fake, code) == ["0"]


def test_default_node_answers_as_the_scenario_says(fake_nvml: Make) -> None:
    assert printed(fake_nvml(node(8)), "print(len(gpus), len({g.uuid for g in gpus}))") == ["8 8"]
