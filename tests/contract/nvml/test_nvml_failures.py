"""Errors, losses and recoveries, on the fake driver library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml.programs import OPEN, answers, printed
from tests.fake_nvml.scenario import mig_instance, node

Make = Callable[..., Any]


_OLD_BINDING = Path(__file__).resolve().parents[3] / ".cache" / "old-binding"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (2, "UnsupportedError INVALID_ARGUMENT"),
        (3, "UnsupportedError NOT_SUPPORTED"),
        (4, "UnsupportedError NO_PERMISSION"),
        (13, "UnsupportedError FUNCTION_NOT_FOUND"),
        (1, "DriverError UNINITIALIZED"),  # the driver answers when it is asked again
        (9, "DriverError DRIVER_NOT_LOADED"),
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


def test_call_that_says_the_driver_is_gone_is_believed_when_it_is(fake_nvml: Make) -> None:
    code = """
file = scenario()
file.set({"driver_gone": 1})
print(shown(gpu.call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake_nvml(), code) == ["DriverGoneError UNINITIALIZED"]


def test_function_that_one_gpu_lacks_is_asked_of_the_others_and_again(fake_nvml: Make) -> None:
    code = """
file = scenario()
file.set({"gpu0.call.nvmlDeviceGetPowerUsage": "ERR 13"})
print(shown(gpus[0].call, "nvmlDeviceGetPowerUsage"), shown(gpus[1].call, "nvmlDeviceGetPowerUsage"))
file.remove("gpu0.call.nvmlDeviceGetPowerUsage")
print(shown(gpus[0].call, "nvmlDeviceGetPowerUsage"))
"""
    assert printed(fake_nvml(), code) == ["UnsupportedError FUNCTION_NOT_FOUND 350000", "350000"]


def test_number_of_gpus_that_cannot_be_is_not_looped_over(fake_nvml: Make) -> None:
    code = "scenario(values={'gpus': 4000000000})\nprint(shown(driver.devices))"

    assert printed(fake_nvml(), code) == ["DriverError IMPLAUSIBLE"]


def test_number_of_mig_places_that_cannot_be_costs_the_instances_alone(fake_nvml: Make) -> None:
    code = """
scenario(values={"gpu0.mig": 1, "gpu0.mig_places": 4000000000})
print([(g.index, g.instances) for g in driver.devices()])
"""

    assert printed(fake_nvml(), code) == ["[(0, ()), (1, ())]"]


def test_driver_that_never_has_room_enough_gets_a_megabyte_at_most(fake_nvml: Make) -> None:
    code = """
for function in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetSamples"):
    args = {"nvmlDeviceGetProcessUtilization": (0,), "nvmlDeviceGetSamples": (1, 0)}.get(function, ())
    print([shown(gpu.call, function, *args) for _ in range(20)][-1])
print(max(len(buffer) for buffer in gpu.target.buffers.values()) <= 1 << 20)
"""
    functions = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetProcessUtilization", "nvmlDeviceGetSamples")
    fake = fake_nvml({f"call.{name}": "ERR 7" for name in functions})

    assert printed(fake, code) == ["DriverError INSUFFICIENT_SIZE"] * 3 + ["True"]


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
    assert printed(fake_nvml(branch="470"), code) == ["1 2"]  # the binding's look-up, and ours of what it lacks


def test_function_that_the_binding_lacks_is_an_absent_reading(fake_nvml: Make) -> None:
    code = """
del nvml.nvmlDeviceGetEnforcedPowerLimit
print([shown(gpu.call, 'nvmlDeviceGetEnforcedPowerLimit') for _ in range(2)])
"""

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
nvml.nvmlDeviceGetEnforcedPowerLimit, nvml.nvmlDeviceGetName = broken, newer
print(shown(gpu.call, "nvmlDeviceGetEnforcedPowerLimit"), shown(gpu.call, "nvmlDeviceGetName"))
"""
    assert printed(fake_nvml(), code) == ["UnsupportedError BINDING UnsupportedError FUNCTION_NOT_FOUND"]


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

    assert printed(fake, "driver.open()\nprint(shown(driver.devices))", OPEN) == ["DriverGoneError UNKNOWN"]


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
        OPEN,
    ) == [f"{error} DriverGoneError UNINITIALIZED", "2"]


def test_no_library(fake_nvml: Make, tmp_path: Any) -> None:
    fake = fake_nvml()
    fake.environment["LD_LIBRARY_PATH"] = str(tmp_path)

    assert printed(fake, "print(shown(driver.open))", OPEN) == ["DriverGoneError LIBRARY_NOT_FOUND"]


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


def test_closing_waits_for_a_read_under_way_which_makes_no_further_call(fake_nvml: Make) -> None:
    code = """
from exporter.driver.nvml import session
session._DRAIN_SECONDS = 60.0
closing = threading.Thread(target=driver.close)
shut = lambda: "nvmlShutdown" in Path(os.environ["FAKE_NVML_LOG"]).read_text()
with gpu.reading():
    power = gpu.prepared("nvmlDeviceGetPowerUsage")
    print(power())
    closing.start()
    while not gpu._session.ended: time.sleep(0.001)
    print(shown(power), shut())
closing.join()
print(shut())
"""
    assert printed(fake_nvml(), code) == ["350000", "DriverGoneError UNINITIALIZED False", "True"]


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
