"""The answers of a device, looked at before a collector sees them."""

from __future__ import annotations

from typing import Any

import pytest

from exporter.collectors.base import Tick
from exporter.collectors.gpm import GPM
from exporter.core.clock import MonotonicTime
from exporter.driver.answer_checks import LARGEST_PID, MAX_MEMORY_BYTES
from exporter.driver.checked_device import ACCEPTED_AFTER_SECONDS, CheckedDevice, Losses
from exporter.driver.interface import DeviceLostError, DriverError, DriverGoneError, Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, hopper

ENERGY, POWER = "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage"


def checked(device: FakeDevice, before: CheckedDevice | None = None, at: float = 0.0) -> CheckedDevice:
    found = before or CheckedDevice(device)
    found.begin(device, at)
    found.asked_by("power")
    return found


@pytest.mark.parametrize(
    ("function", "args", "answer"),
    [
        (POWER, (), 4294967295),
        (POWER, (), -1),
        (POWER, (), Record(power=4294967295)),
        (ENERGY, (), 2**64 - 1),
        ("nvmlDeviceGetMaxPcieLinkGeneration", (), 2155905152),
        ("nvmlDeviceGetNumFans", (), 0xFFFFFFFF),
        ("nvmlDeviceGetUtilizationRates", (), Record(gpu=4294967295, memory=0)),
        ("nvmlDeviceGetTemperatureV", (0,), 32768),
        ("nvmlDeviceGetTotalEccErrors", (1, 0), 2**64 - 1),
        ("nvmlDeviceGetRemappedRows", (), (0, 4294967295, 0, 0)),
        ("nvmlDeviceGetRemappedRows", (), (0, 0, 77, 0)),
        ("nvmlDeviceGetCurrentClocksEventReasons", (), 0xFFFFFFFF),
        ("nvmlDeviceGetSramEccErrorStatus", (), Record(bThresholdExceeded=0xFFFFFFFF)),
        ("nvmlDeviceGetGpuFabricInfoV", (), Record(state=3, status=0, healthMask=0xFFFFFFFF)),
        ("nvmlDeviceGetMemoryInfo", (), Record(total=100, used=101, free=0, reserved=0)),
        ("nvmlDeviceGetMemoryInfo", (), Record(total=2**63, used=1, free=0, reserved=0)),
    ],
)
def test_answer_that_cannot_be_is_absent_and_counted(function: str, args: tuple[Any, ...], answer: Any) -> None:
    device = checked(FakeDevice({function: answer}))

    assert device.get(function, *args) is None
    with pytest.raises(UnsupportedError):
        device.call(function, *args)
    assert device.losses().rejected == 2
    assert function in device.losses().words


def test_losses_name_three_answers_and_count_all() -> None:
    device = checked(FakeDevice({POWER: -1, ENERGY: -2}))
    for function in (POWER, ENERGY, POWER, ENERGY):
        device.get(function)

    names = [f"{name} answered {answer}, which is implausible" for name, answer in ((POWER, -1), (ENERGY, -2))]
    assert device.losses() == Losses(4, "; ".join((*names, names[0])))


def test_device_has_the_instances_and_the_memory_of_the_one_that_it_looks_at() -> None:
    one, two = FakeDevice(), FakeDevice()
    device = CheckedDevice(FakeDevice(instances=(one,)))
    device.begin(replaced := FakeDevice(instances=(two,)), MonotonicTime(1.0))

    assert (device.instances, device.system_memory) == ((two,), replaced.system_memory)


@pytest.mark.parametrize("what", ["CurrPcieLinkWidth", "MaxPcieLinkWidth", "CurrPcieLinkGeneration"])
def test_link_of_nothing_is_no_link_and_a_loss_where_there_was_one(what: str) -> None:
    """Some guests, and GPUs that are not connected by PCIe, answer 0."""
    function, fake = f"nvmlDeviceGet{what}", FakeDevice()
    device = checked(fake)
    found: list[tuple[Any, bool]] = []
    for second, answer in enumerate((0, 4, 0)):
        fake.answers[function] = answer
        device.begin(fake, MonotonicTime(second * 10.0))
        found.append((device.get(function), bool(device.losses().words)))

    assert found == [(None, False), (4, False), (None, True)]


def test_good_answers_pass_as_they_are() -> None:
    device = checked(FakeDevice({POWER: 350_000, "nvmlDeviceGetMigMode": (1, 0), "nvmlDeviceGetName": "NVIDIA H200"}))

    assert [device.call(each) for each in (POWER, "nvmlDeviceGetMigMode", "nvmlDeviceGetName")] == [
        350_000,
        (1, 0),
        "NVIDIA H200",
    ]
    assert device.losses() == Losses()


def test_counter_is_followed_from_read_to_read() -> None:
    device = FakeDevice()
    memory = CheckedDevice(device)
    found: list[int | None] = []
    for second, value in enumerate((10_000, 0, 10_350, 2**62 + 1, 10_700)):
        device.answers[ENERGY] = value
        found.append(checked(device, memory, float(second)).get(ENERGY))

    assert found == [10_000, None, 10_350, None, 10_700]


def test_fields_are_judged_one_by_one() -> None:
    device = checked(FakeDevice(fields={(82, 0): 61, (91, 0): 4294967295, (230, 0): None}))

    assert device.call("nvmlDeviceGetFieldValues", ((82, 0), (91, 0), (230, 0))) == (61, None, None)
    assert device.losses().rejected == 1


THROTTLED, TEMPERATURE = (74, 0), (82, 0)


def test_counter_that_stood_still_is_followed_all_the_same() -> None:
    """What it may have gained is by the time since it was last answered, not since it last moved."""
    device = FakeDevice(fields={THROTTLED: 5_000, TEMPERATURE: 61})
    memory = CheckedDevice(device)
    for second in range(1000):
        assert checked(device, memory, float(second)).get("nvmlDeviceGetFieldValues", (THROTTLED, TEMPERATURE)) == (
            5_000,
            61,
        )
    device.fields[THROTTLED] = 500 * 10**9  # eight minutes within a second

    found = checked(device, memory, 1000.0)

    assert found.get("nvmlDeviceGetFieldValues", (THROTTLED, TEMPERATURE)) == (None, 61)
    assert found.losses().rejected == 1


def test_field_that_cannot_be_is_rejected_each_time_it_is_answered() -> None:
    device = FakeDevice(fields={(91, 0): 4294967295})
    memory = CheckedDevice(device)
    for second in range(3):
        found = checked(device, memory, float(second))
        assert found.get("nvmlDeviceGetFieldValues", ((91, 0),)) == (None,)
        assert found.losses().rejected == 1


def test_fields_that_are_answered_again_as_they_were_are_no_loss_any_more() -> None:
    device = FakeDevice(fields={THROTTLED: 5_000, TEMPERATURE: 61})
    memory = CheckedDevice(device)
    batch = (THROTTLED, TEMPERATURE)
    checked(device, memory, 0.0).get("nvmlDeviceGetFieldValues", batch)
    device.fields[TEMPERATURE] = None
    lost = checked(device, memory, 1.0)
    lost.get("nvmlDeviceGetFieldValues", batch)
    assert lost.losses().words
    device.fields[TEMPERATURE] = 61

    found = checked(device, memory, 2.0)

    assert found.get("nvmlDeviceGetFieldValues", batch) == (5_000, 61)
    assert found.losses() == Losses()


def test_processes_that_cannot_be_are_left_out() -> None:
    lists = (
        Record(pid=0, usedGpuMemory=1),
        Record(pid=4242, usedGpuMemory=2**63),
        Record(pid=2**31, usedGpuMemory=1),
        Record(pid=1, usedGpuMemory=MAX_MEMORY_BYTES),
        Record(pid=LARGEST_PID, usedGpuMemory=None),
    )
    device = checked(FakeDevice({"nvmlDeviceGetComputeRunningProcesses": lists}))

    found = device.call("nvmlDeviceGetComputeRunningProcesses")

    assert [(process.pid, process.usedGpuMemory) for process in found] == [
        (4242, None),
        (1, MAX_MEMORY_BYTES),
        (LARGEST_PID, None),
    ]
    assert device.losses().rejected == 1


def test_processes_that_can_be_are_no_loss() -> None:
    answer = (Record(pid=4242, usedGpuMemory=1),)
    device = checked(FakeDevice({"nvmlDeviceGetComputeRunningProcesses": answer}))

    assert device.call("nvmlDeviceGetComputeRunningProcesses") == answer
    assert device.losses() == Losses()


def test_gpm_metrics_out_of_range_are_left_out() -> None:
    device = checked(FakeDevice({"nvmlGpmMetricsGet": {0: 3600.0, 1: 40.0, 2: 1e30, 20: 1e30, 21: 90.0}}))

    assert device.call("nvmlGpmMetricsGet", (1, 2, 20, 21)) == {0: 3600.0, 1: 40.0, 21: 90.0}


def test_reading_that_was_there_and_is_refused_is_a_loss_until_it_is_accepted_as_the_devices_nature() -> None:
    device = FakeDevice({POWER: 350_000})
    memory = CheckedDevice(device)
    checked(device, memory).call(POWER)
    device.answers[POWER] = UnsupportedError("no", "NO_PERMISSION")

    def words(at: float, *, asks: bool = True) -> str:
        looked_at = checked(device, memory, at)
        if asks:
            assert looked_at.get(POWER) is None
        return looked_at.losses().words

    assert POWER in words(1.0)
    assert POWER in words(200.0, asks=False)
    assert words(1.0 + ACCEPTED_AFTER_SECONDS, asks=False) == ""
    assert words(1.0 + ACCEPTED_AFTER_SECONDS) == ""
    device.answers[POWER] = 350_000
    checked(device, memory, 600.0).call(POWER)
    assert checked(device, memory, 601.0).losses() == Losses()


def test_reading_that_the_device_never_had_is_no_loss() -> None:
    device = checked(FakeDevice())

    assert device.get(POWER) is None
    assert device.losses() == Losses()


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("nvmlDeviceGetComputeRunningProcesses", DriverError("timeout", "TIMEOUT")),
        (POWER, DeviceLostError("lost", "GPU_IS_LOST")),
        (POWER, DriverGoneError("gone", "DRIVER_NOT_LOADED")),
    ],
)
def test_failures_that_concern_more_than_their_own_series_pass_through(function: str, error: DriverError) -> None:
    """A list that is not there is no empty list, however often it fails."""
    fake = FakeDevice({function: error})
    device = checked(fake)

    for second in range(1, 10):
        device.begin(fake, MonotonicTime(float(second)))
        with pytest.raises(DriverError, match=str(error)):
            device.get(function)


def test_call_that_goes_on_failing_costs_what_it_tells_alone() -> None:
    """One that fails for a moment costs the read, so that what was read before stands."""
    fake = FakeDevice({POWER: 5})
    device, found = checked(fake), list[Any]()
    for second, answer in enumerate([5, *[DriverError("timeout", "TIMEOUT")] * 4, 6], 1):
        fake.answers[POWER] = answer
        device.begin(fake, MonotonicTime(float(second)))
        try:
            found.append((device.get(POWER), device.losses().words))
        except DriverError as error:
            found.append(str(error))

    device.begin(fake, MonotonicTime(9.0))
    found.append((device.get(POWER), device.losses().words))
    assert found == [(5, ""), "timeout", "timeout", *[(None, "timeout")] * 3, (6, "")]


@pytest.mark.parametrize(
    ("answer", "most"), [(UnsupportedError("no"), 10), (DriverError("no", "UNKNOWN"), 20), (350_000, 130)]
)
def test_calls_that_are_refused_become_rare(answer: Any, most: int) -> None:
    """In 130 reads, a second apart."""
    fake = FakeDevice({POWER: answer})
    device = checked(fake)
    for second in range(130):
        device.begin(fake, MonotonicTime(float(second)))
        device.get(POWER)

    assert 0.5 * most <= fake.functions.count(POWER) <= most


def test_refused_call_is_made_again_at_once_to_another_device_object() -> None:
    """The driver's enumeration has found changes: MIG was switched off."""
    device = checked(FakeDevice())
    assert device.get(POWER) is None

    device.begin(FakeDevice({POWER: 350_000}), MonotonicTime(1.0))
    assert device.get(POWER) == 350_000


def test_call_that_never_answered_costs_what_it_tells_alone_from_the_start() -> None:
    fake = FakeDevice({POWER: DriverError("timeout", "TIMEOUT")})
    device = checked(fake)

    assert device.get(POWER) is None
    assert (device.losses(), device.fails()) == (Losses(0, "timeout"), True)
    device.begin(fake, MonotonicTime(200.0))
    assert (device.losses(), device.fails()) == (Losses(), False), "it is not made any more"


def test_batch_that_a_device_lacks_as_a_whole_is_no_loss_of_another_batch() -> None:
    def batch(fields: tuple[tuple[int, int], ...]) -> tuple[float | None, ...]:
        if (91, 0) in fields:
            raise UnsupportedError("no NVLink")
        return (1.0,) * len(fields)

    device = FakeDevice({"nvmlDeviceGetFieldValues": batch})
    asked = CheckedDevice(device)
    for second in range(3):
        asked.begin(device, float(second))
        asked.asked_by("nvlink")
        assert asked.get("nvmlDeviceGetFieldValues", ((82, 0),)) == (1.0,)
        assert asked.get("nvmlDeviceGetFieldValues", ((91, 0),)) is None

        assert asked.losses().words == ""


def test_call_is_prepared_once_for_a_device_object() -> None:
    class Preparing(FakeDevice):
        def prepared(self, function: str, *args: Any) -> Any:
            made.append(function)
            return super().prepared(function, *args)

    made: list[str] = []
    device = Preparing({POWER: 350_000})
    asked = CheckedDevice(device)
    for number in range(4):
        asked.begin(device, number * 30.0)
        assert asked.get(POWER) == 350_000

    assert made == [POWER]
    asked.begin(Preparing({POWER: 250_000}), 200.0)
    assert (asked.get(POWER), made) == (250_000, [POWER, POWER])


def test_pcie_counter_that_wraps_is_no_loss() -> None:
    """Under 30 GB/s it does so seven times a second."""
    batch = ((197, 0), (198, 0))
    fake = FakeDevice()
    device = checked(fake)
    counted = [(2_380_946_580, 255_710_680), (1_486_775_548, 507_132_736), (222_601_060, 342_328_072)]
    found: list[tuple[Any, Losses]] = []
    for at, counts in enumerate(counted):
        checked(fake, device, float(at))
        fake.fields = dict(zip(batch, counts, strict=True))
        found.append((device.get("nvmlDeviceGetFieldValues", batch), device.losses()))

    assert found == [(counts, Losses()) for counts in counted]


def test_fields_that_fail_do_not_cost_the_activity_that_gpm_brings_with_them() -> None:
    fake = hopper()
    device = CheckedDevice(fake)
    device.begin(fake, 0.0)
    device.asked_by("gpm")
    before = GPM.read(device, None, Tick(0.0, 0.0))
    fake.answers["nvmlDeviceGetFieldValues"] = DriverError("broken")
    device.begin(fake, 1.0)
    device.asked_by("gpm")

    after = GPM.read(device, before, Tick(1.0, 1.0))

    assert (after.ratios["sm"], after.nvlink.totals) == (0.8, before.nvlink.totals)
    assert device.losses().words == "broken"


_CONSTRAINTS = "nvmlDeviceGetPowerManagementLimitConstraints"


@pytest.mark.parametrize(("answer", "believed"), [(1_399_999, 1_399_999), (1_400_001, None), (16_843_009, None)])
def test_power_is_at_most_twice_the_highest_limit_of_the_board(answer: int, believed: int | None) -> None:
    limits = {_CONSTRAINTS: (200_000, 700_000), "nvmlDeviceGetEnforcedPowerLimit": 300_000}
    device = checked(FakeDevice({**limits, POWER: answer}))
    for limit in limits:
        device.get(limit)

    assert device.get(POWER) == believed
    assert device.losses().rejected == (believed is None)


def test_power_of_a_board_that_reports_no_limit_is_believed() -> None:
    assert checked(FakeDevice({POWER: 900_000})).get(POWER) == 900_000


@pytest.mark.parametrize(("answer", "believed"), [(-1, None), (0xFF, None), (0, 0), (31, 31), (0x7F, 0x7F)])
def test_temperature_is_within_the_range_of_a_sensor(answer: int, believed: int | None) -> None:
    function = "nvmlDeviceGetTemperature"
    device = checked(FakeDevice({function: answer}, fields={TEMPERATURE: answer}))

    assert device.get(function) == believed
    assert device.get("nvmlDeviceGetFieldValues", (TEMPERATURE,)) == (believed,)
