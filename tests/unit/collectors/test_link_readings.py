"""What the collectors of PCIe, NVLink and the fabric publish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from exporter.collectors.base import Tick
from exporter.collectors.fabric import FABRIC
from exporter.collectors.nvlink import NVLINK
from exporter.collectors.pcie import PCIE
from exporter.driver.interface import Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, by_argument, cycles, first, hopper, samples


def test_pcie_falls_back_on_the_replay_call() -> None:
    device = FakeDevice({"nvmlDeviceGetPcieReplayCounter": 7, "nvmlDeviceGetCurrPcieLinkWidth": 8})
    published = first(PCIE, device)
    assert published["gpu_pcie_replays_total"] == {(): 7}
    assert published["gpu_pcie_link_width"] == {(): 8}
    assert "gpu_pcie_errors_total" not in published


def test_nvlink_counts_links_by_the_driver_and_sums_errors() -> None:
    device = hopper()
    device.fields |= {(165, 3): 0, (165, 4): 2, (161, 5): 4, (161, 17): 5, (52, 0): 1}
    published = first(NVLINK, device)
    up = published["gpu_nvlink_link_up"]
    assert (len(up), up[("3",)], up[("4",)]) == (18, 0.0, 1.0)
    assert published["gpu_nvlink_links_up"] == {(): 17}
    assert published["gpu_nvlink_errors_total"] == {("replay",): 9, ("recovery",): 0, ("crc",): 0}
    assert published["gpu_nvlink_link_speed_bytes"] == {(): 26562e6}


def test_nvlink_of_an_old_driver_asks_each_link() -> None:
    fields = {(91, 0): 2, (38, 0): 0, (52, 0): 3}
    device = FakeDevice({"nvmlDeviceGetNvLinkState": by_argument(1, 0)}, fields)
    published = first(NVLINK, device)
    assert published["gpu_nvlink_link_up"] == {("0",): 1.0, ("1",): 0.0}
    assert published["gpu_nvlink_errors_total"] == {("crc_flit",): 0, ("replay",): 3}


def test_nvlink_of_blackwell_has_its_own_errors() -> None:
    fields = {(91, 0): 2} | {(field, link): link for field in (165, 215, 221) for link in (0, 1)}
    assert first(NVLINK, FakeDevice({}, fields))["gpu_nvlink_errors_total"] == {
        ("link_recovery",): 1,
        ("symbol",): 1,
    }


def test_errors_of_the_only_link_are_found() -> None:
    device = FakeDevice({}, {(91, 0): 1, (165, 0): 1, (161, 0): 4})
    assert first(NVLINK, device)["gpu_nvlink_errors_total"] == {("replay",): 4}


def test_errors_that_were_refused_for_a_moment_are_counted_on() -> None:
    """The moment is that in which all is asked for again, as every five minutes."""
    device = FakeDevice({}, {(91, 0): 2} | {(field, link): 3 for field in (165, 161) for link in (0, 1)})
    readings = cycles(NVLINK, device, 1)
    kept = {(161, link): device.fields.pop((161, link)) for link in (0, 1)}
    refused = NVLINK.read(device, readings[0], Tick(1301.0, 30.0))
    device.fields |= kept

    after = NVLINK.read(device, refused, Tick(1331.0, 30.0))

    assert samples(NVLINK, after)["gpu_nvlink_errors_total"] == {("replay",): 6}


_OF_LINKS = {(91, 0): 2, (165, 0): 1, (165, 1): 1, (161, 0): 60, (161, 1): 40}


def _after(change: dict[tuple[int, int], Any], more: Mapping[tuple[int, int], Any]) -> list[Any]:
    """Errors in all and as they are now: before, while these fields answer so (None: not at all), and after."""
    device = FakeDevice({}, dict(_OF_LINKS))
    readings = cycles(NVLINK, device, 1)
    for time, fields in ((1031.0, change), (1061.0, more)):
        device.fields = {field: value for field, value in {**_OF_LINKS, **fields}.items() if value is not None}
        readings.append(NVLINK.read(device, readings[-1], Tick(time, 30.0)))
    published = [samples(NVLINK, each) for each in readings]
    return [
        (each["gpu_nvlink_errors_total"][("replay",)], each["gpu_nvlink_volatile_errors"][("replay",)])
        for each in published
    ]


def test_link_whose_errors_are_refused_for_a_moment_adds_none_when_it_is_back() -> None:
    assert _after({(161, 0): None}, {}) == [(100, 100)] * 3


def test_link_whose_counters_are_reset_forgets_its_own_errors_alone() -> None:
    assert _after({(161, 1): 0}, {(161, 1): 1}) == [(100, 100), (100, 60), (101, 61)]


def test_all_links_that_are_reset_forget_all_they_had() -> None:
    assert _after({(161, 0): 0, (161, 1): 0}, {(161, 0): 2, (161, 1): 0}) == [(100, 100), (100, 0), (102, 2)]


@pytest.mark.parametrize("state", [None, 255])
def test_link_that_tells_no_state_is_not_down_until_that_has_lasted(state: int | None) -> None:
    device = FakeDevice({}, dict(_OF_LINKS))
    (reading,) = cycles(NVLINK, device, 1)
    device.fields = {field: value for field, value in {**_OF_LINKS, (165, 1): state}.items() if value is not None}
    found: list[Any] = []
    for time in (1031.0, 1301.0, 1332.0):
        reading = NVLINK.read(device, reading, Tick(time, 30.0))
        found.append((samples(NVLINK, reading).get("gpu_nvlink_links_up"), reading.links_up))

    assert found == [(None, None), (None, None), ({(): 1}, 1)]
    device.fields = dict(_OF_LINKS)
    assert NVLINK.read(device, reading, Tick(1362.0, 30.0)).links_up == 2


def test_nvlink_without_links_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        first(NVLINK, FakeDevice({}, {(91, 0): 0}))


def test_a_field_that_was_refused_at_first_is_found_within_minutes() -> None:
    device = hopper()
    del device.fields[(94, 0)]
    readings = cycles(PCIE, device, 2, 5.0)
    device.fields[(94, 0)] = 3
    assert "gpu_pcie_replays_total" not in samples(PCIE, PCIE.read(device, readings[-1], Tick(1200.0, 5.0)))
    assert samples(PCIE, PCIE.read(device, readings[-1], Tick(1300.0, 5.0)))["gpu_pcie_replays_total"] == {(): 3}


def test_fabric_tells_what_is_unwell() -> None:
    assert first(FABRIC, hopper()) == {
        "gpu_fabric_state": {("completed",): 1.0},
        "gpu_fabric_unhealthy": {
            ("join_failed",): 0.0,
            ("degraded_bandwidth",): 0.0,
            ("route_recovery",): 0.0,
            ("route_unhealthy",): 0.0,
            ("access_timeout_recovery",): 0.0,
            ("incorrect_configuration",): 0.0,
        },
    }
    device = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": Record(state=2, healthMask=0b0010_00_01_00_01)})
    assert first(FABRIC, device) == {
        "gpu_fabric_state": {("in_progress",): 1.0},
        "gpu_fabric_unhealthy": {
            ("degraded_bandwidth",): 1.0,
            ("route_unhealthy",): 1.0,
            ("incorrect_configuration",): 1.0,
        },
    }


@pytest.mark.parametrize(("status", "failed"), [(0, 0.0), (3, 0.0), (17, 1.0), (999, 1.0)])
def test_fabric_that_was_joined_with_an_error_was_not_joined(status: int, failed: float) -> None:
    completed = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": Record(state=3, status=status, healthMask=0)})
    joining = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": Record(state=2, status=status, healthMask=0)})

    assert first(FABRIC, completed)["gpu_fabric_unhealthy"] == {("join_failed",): failed}
    assert "gpu_fabric_unhealthy" not in first(FABRIC, joining)


def test_fabric_not_supported_is_absent() -> None:
    with pytest.raises(UnsupportedError):
        first(FABRIC, FakeDevice({"nvmlDeviceGetGpuFabricInfoV": Record(state=0, healthMask=0)}))


_CLUSTER = "0123456789abcdef0123456789abcdef"


def _fabric(state: int = 3, cluster: str = _CLUSTER) -> Record:
    return Record(clusterUuid=cluster, status=0, cliqueId=7, state=state, healthMask=0)


def _platform(**fields: Any) -> Record:
    told = {"chassisSerialNumber": "1820325191207", "slotNumber": 12, "trayIndex": 3, "hostId": 1, "moduleId": 2}
    return Record(**{**told, **fields})


def test_place_of_a_gpu_in_its_rack() -> None:
    device = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": _fabric(), "nvmlDeviceGetPlatformInfo": _platform()})

    assert first(FABRIC, device)["gpu_fabric_info"] == {
        ("01234567-89ab-cdef-0123-456789abcdef", "7", "1820325191207", "12", "3", "1", "2"): 1.0
    }


def test_place_is_what_is_told_and_no_more() -> None:
    """A baseboard's module number without a fabric; a clique only of a fabric that is joined and has a name."""
    alone = FakeDevice({"nvmlDeviceGetModuleId": 4})
    joining = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": _fabric(state=2)})
    single = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": _fabric(cluster="0" * 32)})

    assert first(FABRIC, alone) == {"gpu_fabric_info": {("", "", "", "", "", "", "4"): 1.0}}
    assert "gpu_fabric_info" not in first(FABRIC, joining)
    assert "gpu_fabric_info" not in first(FABRIC, single)


def test_place_without_a_chassis_is_the_module_alone() -> None:
    """As an H200 in a virtual machine answers, of which nvidia-smi says N/A for slot, tray and host."""
    nowhere = _platform(chassisSerialNumber="", slotNumber=0, trayIndex=0, hostId=1, moduleId=4)
    device = FakeDevice({"nvmlDeviceGetPlatformInfo": nowhere})

    assert first(FABRIC, device) == {"gpu_fabric_info": {("", "", "", "", "", "", "4"): 1.0}}


def test_place_is_asked_for_once() -> None:
    device = FakeDevice({"nvmlDeviceGetGpuFabricInfoV": _fabric(), "nvmlDeviceGetPlatformInfo": _platform()})
    cycles(FABRIC, device, 3, every=30.0)

    assert device.functions.count("nvmlDeviceGetPlatformInfo") == 1


def test_serial_number_that_is_no_text_is_printable() -> None:
    device = FakeDevice({"nvmlDeviceGetPlatformInfo": _platform(chassisSerialNumber="18\x07\n" + "9" * 100)})
    (labels,) = first(FABRIC, device)["gpu_fabric_info"]

    assert labels[2] == r"18\x07\n" + "9" * 60
