"""Which functions a simulated GPU answers, by its model and driver."""

from __future__ import annotations

import pytest

from exporter.driver import constants as nvml
from exporter.driver.interface import Driver, DriverError, UnsupportedError
from exporter.tools.simulator import simulate
from exporter.tools.simulator.answers import FUNCTIONS
from exporter.tools.simulator.fields import time_counter_ids
from tests.unit.simulator.simulation import ALL_LINKS, gpu, started


@pytest.mark.parametrize(
    ("driver", "ids"),
    [
        ("535.104.05", ()),
        ("570.86", ()),
        ("575.51", (251, 252, 253)),
        ("580.65.06", (251, 252, 253)),
        ("580.70.01", ()),
        ("580.82.07", (269, 270, 271)),
        ("590.44.01", (269, 270, 271)),
    ],
)
def test_thermal_time_counters_have_the_ids_of_the_driver(driver: str, ids: tuple[int, ...]) -> None:
    device = gpu(f"H200:thermal;driver={driver}")
    wanted = (251, 252, 253, 269, 270, 271)
    answers = device.call("nvmlDeviceGetFieldValues", tuple((id_, 0) for id_ in wanted))

    assert time_counter_ids(driver) == ids
    assert tuple(id_ for id_, answer in zip(wanted, answers, strict=True) if answer is not None) == ids


@pytest.mark.parametrize(
    ("function", "args", "since"),
    [
        ("nvmlDeviceGetTemperatureV", (0,), 570),
        ("nvmlDeviceGetMarginTemperature", (), 570),
        ("nvmlDeviceGetGpuFabricInfoV", (), 550),
        ("nvmlDeviceGetCurrentClocksEventReasons", (), 535),
        ("nvmlGpmMetricsGet", ((1,),), 525),
    ],
)
def test_an_older_driver_has_not_the_function(function: str, args: tuple[object, ...], since: int) -> None:
    assert gpu(f"H200:training;driver={since}.10.01").get(function, *args) is not None
    assert gpu(f"H200:training;driver={since - 1}.10.01").get(function, *args) is None


@pytest.mark.parametrize(
    ("model", "function", "args"),
    [
        ("A100", "nvmlGpmMetricsGet", ((1,),)),
        ("RTX4090", "nvmlDeviceGetEccMode", ()),
        ("RTX4090", "nvmlDeviceGetSerial", ()),
        ("L40S", "nvmlDeviceGetNvLinkState", (0,)),
        ("H100", "nvmlDeviceGetRetiredPages", (0,)),
        ("V100", "nvmlDeviceGetRemappedRows", ()),
        ("H200", "nvmlDeviceGetNumFans", ()),
        ("A100-mig", "nvmlDeviceGetUtilizationRates", ()),
        ("A100-mig", "nvmlDeviceGetSamples", (1, 0)),
        ("A100-mig", "nvmlDeviceGetProcessUtilization", (0,)),
        ("H200", "nvmlDeviceInventedCall", ()),
    ],
)
def test_what_a_model_lacks_is_unsupported(model: str, function: str, args: tuple[object, ...]) -> None:
    with pytest.raises(UnsupportedError):
        gpu(model).call(function, *args)


@pytest.mark.parametrize("spec", ["8xH200", "4xA100-mig", "B200+L40S+A10+T4+V100+RTX4090", "2xH100-mig:training,free"])
def test_every_function_answers_or_is_unsupported_the_same_each_time(spec: str) -> None:
    assert everything(started(spec, 123.4)[0]) == everything(started(spec, 123.4)[0])


def test_another_seed_or_node_is_another_machine() -> None:
    names = [gpu(f"H200{options}").uuid for options in ("", ";seed=1", ";node=b", ";seed=1;node=b")]

    assert len(set(names)) == 4


def everything(driver: Driver) -> list[object]:
    """Every function's answer on every device, with arguments of the kind it takes."""
    arguments = {
        "nvmlDeviceGetFieldValues": (tuple((id_, scope) for id_ in range(310) for scope in (0, 3, ALL_LINKS)),),
        "nvmlDeviceGetMemoryErrorCounter": (1, 0, 2),
        "nvmlDeviceGetTotalEccErrors": (1, 0),
        "nvmlDeviceGetSamples": (1, 0),
        **dict.fromkeys(
            ("nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetViolationStatus",
             "nvmlDeviceGetRetiredPages", "nvmlDeviceGetTemperatureThreshold", "nvmlDeviceGetNvLinkState",
             "nvmlDeviceGetProcessUtilization"), (0,)),
    }  # fmt: skip
    found: list[object] = []
    for device in driver.devices():
        for target in (device, *device.instances):
            found.append((target.index, target.uuid, target.mig, target.pci_bus_id, target.minor))
            for function in (*FUNCTIONS, "nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"):
                try:
                    found.append((function, target.call(function, *arguments.get(function, ()))))
                except DriverError as error:
                    found.append((function, type(error), error.code))
    return found


@pytest.mark.parametrize("pattern", ["storage-bound", "slow-disk-rank"])
def test_counters_that_stand_still_never_go_back_by_the_last_digit_of_a_sum(pattern: str) -> None:
    now = [1_700_000_000.0]
    driver = simulate(f"1xH200:{pattern};seed=7;churn=600", lambda: now[0])
    driver.open()
    (device,) = driver.devices()
    wanted = (nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES)
    before = (0,) * len(wanted)
    for second in range(1800):
        now[0] = 1_700_000_000.0 + second
        counts = device.call("nvmlDeviceGetFieldValues", tuple((field, 0) for field in wanted))
        assert all(now >= then for then, now in zip(before, counts, strict=True)), f"second {second}"
        before = counts
