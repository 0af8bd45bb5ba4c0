"""What a fault of a simulation does to the GPU it hits, and when."""

from __future__ import annotations

import pytest

from exporter.driver.interface import DeviceLostError, DriverGoneError
from tests.unit.simulator.simulation import EPOCH, gpu, started


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
