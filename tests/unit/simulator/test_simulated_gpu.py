"""Whether the numbers of a simulated GPU agree with each other, and with what it was told to do."""

from __future__ import annotations

import pytest

from exporter.driver import DeviceLostError, Driver, DriverError, DriverGoneError, UnsupportedError
from exporter.simulator.answers import FUNCTIONS
from exporter.simulator.fields import time_counter_ids
from exporter.simulator.models import MODELS
from exporter.simulator.patterns import PATTERNS
from tests.unit.simulator.simulation import EPOCH, gpu, started

ALL_LINKS = 0xFFFFFFFF


@pytest.mark.parametrize("spec", ["H200:training", "A100:square", "T4:inference", "A100-mig:training,free,notebook"])
def test_energy_is_the_integral_of_power(spec: str) -> None:
    driver, clock = started(spec, 100.0)
    device = driver.devices()[0]
    start = device.call("nvmlDeviceGetTotalEnergyConsumption")
    joules = 0.0
    for _ in range(1200):
        clock.time += 0.05
        (instant,) = device.call("nvmlDeviceGetFieldValues", ((186, 0),))
        joules += instant / 1000 * 0.05

    assert device.call("nvmlDeviceGetTotalEnergyConsumption") - start == pytest.approx(joules * 1000, rel=0.001)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pattern", ["training", "free", "leaked-memory", "inference"])
def test_memory_adds_up_and_processes_fit_in_it(model: str, pattern: str) -> None:
    device = gpu(f"{model}:{pattern}")
    memory = device.call("nvmlDeviceGetMemoryInfo")
    processes = device.call("nvmlDeviceGetComputeRunningProcesses")

    assert memory.used + memory.free + memory.reserved == memory.total == MODELS[model].memory * 2**20
    assert sum(process.usedGpuMemory for process in processes) <= memory.used
    assert memory.free > 0


def test_leaked_memory_has_no_process() -> None:
    device = gpu("H100:leaked-memory")

    assert device.call("nvmlDeviceGetComputeRunningProcesses") == ()
    assert device.call("nvmlDeviceGetMemoryInfo").used > 2**34


@pytest.mark.parametrize("name", [name for name, pattern in PATTERNS.items() if name not in {"lost", "hang"}])
def test_samples_have_the_mean_utilization_of_the_pattern(name: str) -> None:
    driver, clock = started(f"2xH200:{name};churn=10000000", 100.0)
    pattern = PATTERNS[name]
    span = 16 * pattern.period * (1 if pattern.period > 10 else 10)
    for device, duty in zip(
        driver.devices(), (pattern.duty, pattern.duty if pattern.peer_duty is None else pattern.peer_duty), strict=True
    ):
        clock.time = EPOCH + 100
        cursor, total, count = int(clock.time * 1e6), 0.0, 0
        while clock.time < EPOCH + 100 + span:
            clock.time += 5
            samples = device.call("nvmlDeviceGetSamples", 1, cursor)
            cursor = samples[-1][0]
            total, count = total + sum(value for _, value in samples), count + len(samples)

        assert total / count == pytest.approx(100 * duty, abs=1.5)


@pytest.mark.parametrize("period", ["0.3333", "0.4", "1", "7"])
def test_square_wave_is_exact_whatever_its_period(period: str) -> None:
    driver, clock = started(f"H200:square;period={period};duty=0.35", 60.0)
    device = driver.devices()[0]
    cursor, total, count = int(clock.time * 1e6), 0.0, 0
    for _ in range(140):
        clock.time += 1
        samples = device.call("nvmlDeviceGetSamples", 1, cursor)
        cursor = samples[-1][0]
        total, count = total + sum(value for _, value in samples), count + len(samples)

    assert total / count == pytest.approx(35, rel=0.02)


def test_samples_are_newer_than_the_cursor_and_one_buffer_at_most() -> None:
    device = gpu("A10:training", 1000.0)
    everything = device.call("nvmlDeviceGetSamples", 1, 0)
    stamps = [stamp for stamp, _ in everything]

    assert len(everything) == 100
    assert stamps == sorted(stamps)
    assert device.call("nvmlDeviceGetSamples", 1, stamps[-4]) == everything[-3:]
    assert device.call("nvmlDeviceGetSamples", 1, stamps[-1]) == ()
    assert {type(value) for _, value in everything} == {int}


def test_gpm_is_the_mean_since_the_call_before() -> None:
    driver, clock = started("2xH200:training", 6 * 17.6)  # a pair of jitter cells is 16 periods of 1.1 s
    device = driver.devices()[0]
    metrics = (1, 2, 5, 10, 61)

    assert device.call("nvmlGpmMetricsGet", metrics) == {}

    links = device.call("nvmlDeviceGetFieldValues", ((138, ALL_LINKS),))[0]
    clock.time += 17.6
    found = device.call("nvmlGpmMetricsGet", metrics)
    moved = device.call("nvmlDeviceGetFieldValues", ((138, ALL_LINKS),))[0] - links

    assert found[1] == pytest.approx(97, abs=0.1)
    assert found[2] == pytest.approx(97 * 0.88, abs=0.1)
    assert found[61] * 2**20 * 17.6 == pytest.approx(moved * 1024, rel=1e-6)


def test_a_process_uses_what_the_gpu_does() -> None:
    device = gpu("H200:training")
    (process,) = device.call("nvmlDeviceGetComputeRunningProcesses")
    samples = device.call("nvmlDeviceGetProcessUtilization", 0)

    assert {sample.pid for sample in samples} == {process.pid}
    assert len(samples) == 10
    assert all(80 <= sample.smUtil <= 100 for sample in samples)
    assert device.call("nvmlDeviceGetProcessUtilization", samples[-1].timeStamp) == ()


def test_temperature_follows_power_and_stays_under_its_limit() -> None:
    cool, warm, hot = (
        gpu(f"H100:{name}").call("nvmlDeviceGetTemperature", 0) for name in ("free", "training", "thermal")
    )

    assert cool < warm - 20 < hot - 30
    assert hot <= MODELS["H100"].max_temperature + 1


def test_thermal_fault_throttles_clocks_and_counts_the_time() -> None:
    driver, clock = started("H200:training;fault=thermal:0@100+50", 99.0)
    device = driver.devices()[0]
    before = device.call("nvmlDeviceGetClockInfo", 1)
    assert device.call("nvmlDeviceGetCurrentClocksEventReasons") == 0
    assert device.call("nvmlDeviceGetFieldValues", ((269, 0), (270, 0))) == (0, 0)

    clock.time = EPOCH + 149
    assert device.call("nvmlDeviceGetClockInfo", 1) < 0.7 * before

    clock.time = EPOCH + 200
    software, hardware = device.call("nvmlDeviceGetFieldValues", ((269, 0), (270, 0)))
    assert software == pytest.approx(0.6 * 0.97 * 50e9, rel=0.05)
    assert hardware == pytest.approx(0.25 * 0.97 * 50e9, rel=0.05)
    violation = device.call("nvmlDeviceGetViolationStatus", 1)
    assert violation.violationTime == pytest.approx(software + hardware, abs=2)
    assert device.call("nvmlDeviceGetClockInfo", 1) == before


def test_power_cap_is_no_thermal_throttling() -> None:
    device = gpu("H200:power-capped")

    assert device.call("nvmlDeviceGetCurrentClocksEventReasons") == 0x4
    assert device.call("nvmlDeviceGetPowerUsage") <= device.call("nvmlDeviceGetEnforcedPowerLimit")


@pytest.mark.parametrize(
    ("fault", "call", "healthy", "broken"),
    [
        ("row-remap-pending", ("nvmlDeviceGetRemappedRows",), (0, 0, 0, 0), (0, 1, 1, 0)),
        ("row-remap-failed", ("nvmlDeviceGetRemappedRows",), (0, 0, 0, 0), (0, 0, 0, 1)),
        ("nvlink-down", ("nvmlDeviceGetNvLinkState", 2), 1, 0),
        ("pcie-degraded", ("nvmlDeviceGetCurrPcieLinkWidth",), 16, 4),
        ("row-remap-pending", ("nvmlDeviceGetFieldValues", ((230, 0),)), (0,), (4,)),
    ],
)
def test_a_fault_shows_from_its_time_on(fault: str, call: tuple[str, ...], healthy: object, broken: object) -> None:
    driver, clock = started(f"2xH200:training;fault={fault}:0@100", 99.0)
    sick, well = driver.devices()
    assert sick.call(*call) == well.call(*call) == healthy

    clock.time += 2

    assert (sick.call(*call), well.call(*call)) == (broken, healthy)


def test_fan_failure_stops_a_fan_where_there_is_one() -> None:
    device = gpu("RTX4090:fan-failure")

    assert device.call("nvmlDeviceGetNumFans") == 2
    assert device.call("nvmlDeviceGetFanSpeed_v2", 0) == 0
    assert device.call("nvmlDeviceGetFanSpeed_v2", 1) > 0


def test_ecc_storm_counts_errors() -> None:
    device = gpu("A100:ecc-storm")

    assert device.call("nvmlDeviceGetTotalEccErrors", 0, 0) == pytest.approx(4 * 300, abs=1)
    assert device.call("nvmlDeviceGetTotalEccErrors", 1, 0) == 10


def test_a_lost_gpu_raises_is_not_listed_and_reports_its_xid_once() -> None:
    driver, clock = started("4xH200:training;fault=lost:2@60+100", 59.0)
    device = driver.devices()[2]
    assert driver.events(0) == ()

    clock.time += 2
    with pytest.raises(DeviceLostError):
        device.call("nvmlDeviceGetPowerUsage")
    with pytest.raises(DeviceLostError):
        device.get("nvmlDeviceGetPowerUsage")
    assert [each.index for each in driver.devices()] == [0, 1, 3]
    assert driver.node.pci_count == 4
    assert [(event.uuid, event.xid, event.timestamp) for event in driver.events(0)] == [(device.uuid, 79, EPOCH + 60)]
    assert driver.events(0) == ()

    clock.time = EPOCH + 161
    assert [each.index for each in driver.devices()] == [0, 1, 2, 3]


def test_waiting_for_an_event_returns_when_it_comes() -> None:
    driver, clock = started("H200:training;fault=xid:0@5", 1.0)

    (event,) = driver.events(60)

    assert (event.xid, clock.time) == (31, pytest.approx(EPOCH + 5, abs=0.2))


def test_a_hung_gpu_answers_when_the_hang_is_over() -> None:
    driver, clock = started("2xH200:training;fault=hang:1@10+60", 11.0)
    well, hung = driver.devices()

    well.call("nvmlDeviceGetPowerUsage")
    assert clock.time == EPOCH + 11

    hung.call("nvmlDeviceGetPowerUsage")
    assert clock.time == pytest.approx(EPOCH + 70, abs=0.2)


def test_the_driver_can_be_unloaded_for_a_while() -> None:
    driver, clock = started("H200:training;fault=driver-gone:all@10+60", 11.0)

    for call in (driver.open, driver.devices, lambda: driver.call("nvmlSystemGetDriverVersion")):
        with pytest.raises(DriverGoneError):
            call()
    clock.time += 60
    driver.open()
    assert len(driver.devices()) == 1


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
