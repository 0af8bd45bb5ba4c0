"""What one failing call costs while the GPUs are enumerated, on the fake driver library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fake_nvml.programs import OPEN, READ, printed
from tests.fake_nvml.scenario import mig_instance, uuid

Make = Callable[..., Any]

_SHOWN = "print([(g.index, g.pci_bus_id, g.minor, len(g.instances)) for g in driver.devices()])"
_MIG = mig_instance(0, 2, 3, "1g.10gb")


@pytest.mark.parametrize("code", [3, 4, 6, 10, 999, 1])
@pytest.mark.parametrize(
    "function",
    ["nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMigMode", "nvmlDeviceGetMaxMigDeviceCount"],
)
def test_gpu_that_cannot_be_described_is_shown_all_the_same(fake_nvml: Make, function: str, code: int) -> None:
    """On Jetson and in some guests a GPU has no PCI address; a container may not ask for MIG."""
    fake = fake_nvml({**_MIG, f"call.{function}": f"ERR {code}"})
    places = {"nvmlDeviceGetPciInfo_v3": ("", ""), "": ("0000:1a:00.0", "0000:1b:00.0")}
    first, second = places.get(function, places[""])
    minors = (None, None) if function == "nvmlDeviceGetMinorNumber" else (0, 1)
    instances = 0 if "Mig" in function else 1

    assert printed(fake, _SHOWN) == [str([(0, first, minors[0], instances), (1, second, minors[1], 0)])]


@pytest.mark.parametrize(
    "function",
    [
        *("nvmlDeviceGetMinorNumber", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMigMode"),
        *("nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"),
        *("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId"),
    ],
)
def test_call_that_fails_for_a_moment_changes_nothing_of_a_gpu_that_is_known(fake_nvml: Make, function: str) -> None:
    code = f"""
{_SHOWN}
scenario(values={{**{_MIG!r}, "call.{function}": "ERR 999"}})
{_SHOWN}
print(gpu.instances[0].call("nvmlDeviceGetMemoryInfo").used)
"""
    before, after, used = printed(fake_nvml(_MIG), code)

    assert after == before == "[(0, '0000:1a:00.0', 0, 1), (1, '0000:1b:00.0', 1, 0)]"
    assert int(used) == 1 << 30


def test_instance_that_was_destroyed_is_not_kept(fake_nvml: Make) -> None:
    code = f"""
scenario(values={{"gpu0.mig": 1}})
{_SHOWN}
scenario(values={{"gpu0.mig": 1, "gpu0.call.nvmlDeviceGetMigDeviceHandleByIndex": "ERR 999"}})
{_SHOWN}
"""
    gone = "[(0, '0000:1a:00.0', 0, 0), (1, '0000:1b:00.0', 1, 0)]"

    assert printed(fake_nvml(_MIG), code) == [gone, gone]


def test_lost_gpu_is_left_out_whatever_call_says_so(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu0.call.nvmlDeviceGetMinorNumber": "ERR 15"})

    assert printed(fake, "print([g.index for g in gpus], driver.refused)") == ["[1] ((0, 'GPU_IS_LOST'),)"]


@pytest.mark.parametrize(
    ("files", "refused"),
    [
        (("nvidia0", "nvidia1", "nvidiactl"), "((0, 'UNKNOWN'),)"),
        (("nvidia1", "nvidiactl", "nvidia-uvm"), "()"),  # a container that was given the other one
        ((), "()"),
    ],
)
def test_gpu_that_fell_off_the_bus_is_told_from_one_of_another_container(
    fake_nvml: Make, tmp_path: Path, files: tuple[str, ...], refused: str
) -> None:
    """The driver has one word for both; "Unable to determine the device handle: Unknown Error", says nvidia-smi."""
    for name in files:
        (tmp_path / "dev" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    code = f"""
from exporter.driver.nvml import devices
devices.DEVICES = Path({str(tmp_path / "dev")!r})
print([g.index for g in driver.devices()], driver.refused)
"""
    fake = fake_nvml({"gpu0.call.nvmlDeviceGetHandleByIndex_v2": "ERR 999"})

    assert printed(fake, code) == [f"[1] {refused}"]


def test_gpus_of_one_uuid_are_two_gpus(fake_nvml: Make) -> None:
    code = """
for g in driver.devices(): print(g.uuid, g.call("nvmlDeviceGetPowerUsage"))
"""
    fake = fake_nvml({"gpu1.uuid": uuid(0), "gpu1.power_mw": 1000})

    assert printed(fake, code, READ + code) == [f"{uuid(0)} 350000", f"{uuid(0)}@1 1000"] * 2


def test_gpu_of_an_empty_uuid_is_named_by_its_index(fake_nvml: Make) -> None:
    fake = fake_nvml({"gpu1.uuid": ""})

    assert printed(fake, "print([gpu.uuid for gpu in driver.devices()])") == [f"{[uuid(0), '@1']}"]


_SHORT_TIMEOUT = """
from exporter.driver.nvml import apart
apart.NEXT_AFTER_SECONDS = apart.ANSWER_TIMEOUT_SECONDS = 0.05
"""
_GENEROUS = "apart.NEXT_AFTER_SECONDS = apart.ANSWER_TIMEOUT_SECONDS = 60.0"


def test_gpu_that_hangs_from_the_start_costs_itself_alone(fake_nvml: Make) -> None:
    """It is asked once until that call returns: each enumeration would leave one more thread behind."""
    code = f"""
{_SHORT_TIMEOUT}
driver.open()
while not driver.devices(): pass
{_GENEROUS}
for _ in range(2):
    {_SHOWN}
    print(driver.refused, len([each for each in threading.enumerate() if each.name == "apart"]))
scenario()
while len(driver.devices()) < 2: pass
print(driver.refused)
"""
    shown = "[(1, '0000:1b:00.0', 1, 0)]"
    refused = "((0, 'HUNG'),)"

    fake = fake_nvml({"gpu0.call.nvmlDeviceGetUUID": "SLEEP 60"})

    assert printed(fake, code, OPEN) == [shown, f"{refused} 1", shown, f"{refused} 1", "()"]


def test_only_gpu_of_a_node_that_hangs_from_the_start_is_lost_and_not_the_driver(fake_nvml: Make) -> None:
    code = f"{_SHORT_TIMEOUT}driver.open()\nprint(driver.devices(), driver.refused)"
    fake = fake_nvml({"gpus": 1, "call.nvmlDeviceGetHandleByIndex_v2": "SLEEP 60"})

    assert printed(fake, code, OPEN) == ["() ((0, 'HUNG'),)"]


def test_gpu_that_hangs_later_is_shown_as_it_was(fake_nvml: Make) -> None:
    code = f"""
scenario(values={{**{_MIG!r}, "gpu0.call.*": "SLEEP 60"}})
{_SHORT_TIMEOUT}
driver.devices()
{_GENEROUS}
{_SHOWN}
print(driver.refused)
"""
    assert printed(fake_nvml(_MIG), code) == ["[(0, '0000:1a:00.0', 0, 1), (1, '0000:1b:00.0', 1, 0)]", "()"]


def test_texts_with_odd_bytes_are_shown_without_them(fake_nvml: Make) -> None:
    """A board with such a name has a name, and one with such a UUID is there."""
    code = """
scenario(values={"gpu0.name": "NVIDIA H\\udcae100", "gpu1.uuid": "GPU-\\udcff1"})
for gpu in driver.devices(): print(gpu.uuid, gpu.call("nvmlDeviceGetName"))
"""
    first, second = printed(fake_nvml({}), code)

    assert first == f"{uuid(0)} NVIDIA H\ufffd100"
    assert second.startswith("GPU-\ufffd1 ")
