"""What each collector publishes: units, absence, failures, and the calls it makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from exporter.collector import AnyCollector, Pace, Scope, Tick
from exporter.collectors import COLLECTORS
from exporter.collectors.clocks import CLOCKS
from exporter.collectors.ecc import ECC
from exporter.collectors.engines import ENGINES
from exporter.collectors.fabric import FABRIC
from exporter.collectors.gpm import GPM
from exporter.collectors.health import HEALTH
from exporter.collectors.info import INFO, numa_node
from exporter.collectors.memory import MEMORY
from exporter.collectors.mig import MIG
from exporter.collectors.nvlink import NVLINK
from exporter.collectors.pcie import PCIE
from exporter.collectors.power import POWER
from exporter.collectors.remapped_rows import REMAPPED_ROWS
from exporter.collectors.retired_pages import RETIRED_PAGES
from exporter.collectors.temperature import TEMPERATURE
from exporter.driver import DeviceLostError, Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, FakeInstance, by_argument, first, hopper, passes, samples

GPU_COLLECTORS = [collector for collector in COLLECTORS if collector.scope is Scope.GPU]


def named(collector: AnyCollector) -> str:
    return collector.name


@pytest.mark.parametrize("collector", COLLECTORS, ids=named)
def test_a_device_that_answers_nothing_is_unsupported_or_silent(collector: AnyCollector) -> None:
    """An unnamed GPU still has its bus id; everything else raises rather than publish zeros."""
    device = FakeInstance() if collector.scope is Scope.INSTANCE else FakeDevice()
    try:
        published = first(collector, device)
    except UnsupportedError:
        published = {}
    assert set(published) <= {"gpu_info", "gpu_mig_info"}


@pytest.mark.parametrize("collector", GPU_COLLECTORS, ids=named)
def test_a_failing_driver_fails_the_reading(collector: AnyCollector) -> None:
    device = hopper()
    device.answers = {name: DeviceLostError("gone") for name in [*device.answers, "nvmlDeviceGetFieldValues"]}
    with pytest.raises(DeviceLostError):
        collector.read(device, None, Tick(1000.0, 0.0))


@pytest.mark.parametrize("collector", [c for c in GPU_COLLECTORS if c is not RETIRED_PAGES], ids=named)
def test_every_collector_reads_a_hopper(collector: AnyCollector) -> None:
    published = first(collector, hopper())
    assert set(published) >= {
        family.name
        for family in collector.families
        if family.name
        not in {
            "gpu_temperature_threshold_celsius",
            "gpu_fan_speed_ratio",
            "gpu_fan_speed_rpm",
        }
    } - ({f.name for f in GPM.families if "active" in f.name or "occupancy" in f.name} if collector is GPM else set())


def test_names_are_unique_over_all_collectors() -> None:
    names = Counter(family.name for collector in COLLECTORS for family in collector.families)
    assert [name for name, count in names.items() if count > 1] == []
    assert len({collector.name for collector in COLLECTORS}) == len(COLLECTORS)


def test_driver_calls_per_minute_on_a_hopper() -> None:
    """The cost of sampling at 1 s: the driver's time, so it is counted here and said in the reference."""
    calls = {collector.name: len(_minute(collector).asked) for collector in GPU_COLLECTORS}
    assert calls == {
        "info": 18,
        "memory": 24,
        "utilization": 180,
        "engines": 48,
        "gpm": 180,
        "power": 126,
        "clocks": 68,
        "temperature": 48,
        "throttle": 183,
        "pcie": 30,
        "nvlink": 5,
        "ecc": 8,
        "retired_pages": 1,
        "remapped_rows": 4,
        "health": 12,
        "fabric": 2,
        "processes": 96,
    }
    assert sum(calls.values()) == 1033


def _minute(collector: AnyCollector) -> FakeDevice:
    device = hopper()
    every = max(collector.pace.value, 1.0)
    try:
        passes(collector, device, round(60 / every), every)
    except UnsupportedError:
        assert collector is RETIRED_PAGES
    return device


def test_never_the_call_that_blocks_twenty_milliseconds() -> None:
    assert "nvmlDeviceGetPcieThroughput" not in {name for c in GPU_COLLECTORS for name in _minute(c).functions}


def test_memory_counts_reserved_apart_and_omits_it_where_the_driver_does() -> None:
    assert first(MEMORY, hopper())["gpu_memory_reserved_bytes"] == {(): 100}
    old = FakeDevice({"nvmlDeviceGetMemoryInfo": Record(total=10, free=4, used=6)})
    assert set(first(MEMORY, old)) == {"gpu_memory_total_bytes", "gpu_memory_used_bytes", "gpu_memory_free_bytes"}


def test_power_converts_to_watts_and_joules() -> None:
    published = first(POWER, hopper())
    assert published["gpu_power_watts"] == {(): 650.5}
    assert published["gpu_power_limit_watts"] == {(): 700.0}
    assert published["gpu_power_min_limit_watts"] == {(): 200.0}
    assert published["gpu_energy_joules_total"] == {(): 123456.789}


def test_power_reads_limits_every_thirty_seconds() -> None:
    device = hopper()
    passes(POWER, device, 60)
    calls = Counter(device.functions)
    assert calls["nvmlDeviceGetPowerUsage"] == 60
    assert calls["nvmlDeviceGetEnforcedPowerLimit"] == 2


def test_power_of_limit() -> None:
    assert passes(POWER, hopper(), 1)[0].of_limit == pytest.approx(650.5 / 700)


def test_clocks_are_hertz_and_an_unknown_state_is_absent() -> None:
    device = hopper()
    device.answers["nvmlDeviceGetPerformanceState"] = 32
    published = first(CLOCKS, device)
    assert published["gpu_clock_hertz"][("memory",)] == 3201e6
    assert published["gpu_clock_max_hertz"][("video",)] == 1545e6
    assert "gpu_performance_state" not in published


def test_engines_are_ratios() -> None:
    assert first(ENGINES, hopper())["gpu_decoder_utilization_ratio"] == {(): 0.5}


def test_info_describes_the_gpu() -> None:
    published = first(INFO, hopper())
    assert published["gpu_info"] == {
        ("NVIDIA H200", "0000:1a:00.0", "1650000000000", "96.00.B7.00.01", "hopper", "9.0", "1", "0"): 1
    }
    assert published["gpu_mig_mode_enabled"] == {(): 0}


@pytest.mark.parametrize(("mask", "node"), [(None, ""), ((0, 0), ""), ((1,), "0"), ((0b1100, 0), "2"), ((0, 2), "65")])
def test_numa_node_is_the_lowest_bit(mask: Any, node: str) -> None:
    assert numa_node(mask) == node


def test_temperature_of_hopper_has_margins_but_no_absolute_thresholds() -> None:
    published = first(TEMPERATURE, hopper())
    assert published["gpu_temperature_celsius"] == {("gpu",): 55.0, ("memory",): 60}
    assert published["gpu_temperature_margin_celsius"] == {(): 32.0}
    assert published["gpu_temperature_threshold_margin_celsius"] == {
        ("shutdown",): -8,
        ("slowdown",): -2,
        ("gpu_max",): 0,
    }
    assert "gpu_temperature_threshold_celsius" not in published


def test_temperature_of_an_old_card_with_fans() -> None:
    device = FakeDevice(
        {
            "nvmlDeviceGetTemperature": by_argument(70),
            "nvmlDeviceGetTemperatureThreshold": by_argument(96, 93, 0, 89),
            "nvmlDeviceGetNumFans": 2,
            "nvmlDeviceGetFanSpeed_v2": by_argument(30, 102),
        }
    )
    published = first(TEMPERATURE, device)
    assert published["gpu_temperature_celsius"] == {("gpu",): 70.0}
    assert published["gpu_temperature_threshold_celsius"] == {("shutdown",): 96, ("slowdown",): 93, ("gpu_max",): 89}
    assert published["gpu_fan_speed_ratio"] == {("0",): 0.3, ("1",): 1.02}
    assert "gpu_fan_speed_rpm" not in published


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
    assert published["gpu_nvlink_errors_total"] == {("replay",): 9, ("recovery",): 0, ("crc",): 0}
    assert published["gpu_nvlink_link_speed_bytes_per_second"] == {(): 26562e6}


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


def test_nvlink_without_links_is_unsupported() -> None:
    with pytest.raises(UnsupportedError):
        first(NVLINK, FakeDevice({}, {(91, 0): 0}))


def test_a_field_that_was_refused_at_first_is_found_within_minutes() -> None:
    device = hopper()
    del device.fields[(94, 0)]
    readings = passes(PCIE, device, 2, 5.0)
    device.fields[(94, 0)] = 3
    assert "gpu_pcie_replays_total" not in samples(PCIE, PCIE.read(device, readings[-1], Tick(1200.0, 5.0)))
    assert samples(PCIE, PCIE.read(device, readings[-1], Tick(1300.0, 5.0)))["gpu_pcie_replays_total"] == {(): 3}


def test_unsupported_fields_are_asked_once() -> None:
    device = hopper()
    passes(ECC, device, 3, 30.0)
    batches = [entries for function, *entries in device.asked if function == "nvmlDeviceGetFieldValues"]
    assert [len(batch[0]) for batch in batches] == [15, 15, 15]
    del device.fields[(17, 0)], device.fields[(16, 0)]
    device.asked.clear()
    passes(ECC, device, 2, 30.0)
    batches = [entries for function, *entries in device.asked if function == "nvmlDeviceGetFieldValues"]
    assert [len(batch[0]) for batch in batches] == [15, 13]


def test_ecc_publishes_zeros_only_where_the_driver_counts() -> None:
    published = first(ECC, hopper())
    assert published["gpu_ecc_errors_total"] == {("corrected",): 0, ("uncorrected",): 0}
    assert published["gpu_ecc_location_errors_total"][("corrected", "sram")] == 0
    assert published["gpu_ecc_sram_threshold_exceeded"] == {(): 0.0}
    with pytest.raises(UnsupportedError):
        first(ECC, FakeDevice())


def test_ecc_without_root_omits_only_the_threshold() -> None:
    device = hopper()
    device.answers["nvmlDeviceGetSramEccErrorStatus"] = UnsupportedError("root only", "NO_PERMISSION")
    published = first(ECC, device)
    assert "gpu_ecc_sram_threshold_exceeded" not in published
    assert "gpu_ecc_errors_total" in published


def test_ecc_totals_fall_back_on_the_plain_call() -> None:
    device = FakeDevice({"nvmlDeviceGetTotalEccErrors": lambda type_, counter: 10 * type_ + counter})
    published = first(ECC, device)
    assert published["gpu_ecc_errors_total"] == {("corrected",): 0, ("uncorrected",): 10}
    assert published["gpu_ecc_lifetime_errors_total"] == {("corrected",): 1, ("uncorrected",): 11}


def test_retired_pages() -> None:
    published = first(RETIRED_PAGES, FakeDevice({}, {(29, 0): 2, (30, 0): 1, (31, 0): 1}))
    assert published["gpu_retired_pages_total"] == {("single_bit",): 2, ("double_bit",): 1}
    assert published["gpu_retired_pages_pending"] == {(): 1}


def test_remapped_rows() -> None:
    device = hopper()
    device.answers["nvmlDeviceGetRemappedRows"] = (1, 2, 1, 0)
    published = first(REMAPPED_ROWS, device)
    assert published["gpu_remapped_rows_total"] == {("correctable",): 1, ("uncorrectable",): 2}
    assert published["gpu_row_remap_pending"] == {(): 1.0}
    assert published["gpu_row_remap_failed"] == {(): 0.0}
    assert published["gpu_row_remap_banks"][("max",)] == 2560


@pytest.mark.parametrize(("code", "action"), [(0, "none"), (2, "node_reboot"), (7, "system_reboot"), (8, "unknown")])
def test_recovery_action_is_one_series(code: int, action: str) -> None:
    assert first(HEALTH, FakeDevice({}, {(230, 0): code})) == {"gpu_recovery_action": {(action,): 1.0}}


def test_fabric_tells_what_is_unwell() -> None:
    assert first(FABRIC, hopper()) == {
        "gpu_fabric_state": {("completed",): 1.0},
        "gpu_fabric_unhealthy": {
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


def test_fabric_not_supported_is_absent() -> None:
    with pytest.raises(UnsupportedError):
        first(FABRIC, FakeDevice({"nvmlDeviceGetGpuFabricInfoV": Record(state=0, healthMask=0)}))


def test_mig_instance_of_a_hopper() -> None:
    instance = FakeInstance(
        {
            "nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb",
            "nvmlDeviceGetMemoryInfo": Record(total=18, reserved=1, free=7, used=10),
            "nvmlGpmMetricsGet": {2: 50.0, 5: 130.0},
        }
    )
    published = samples(MIG, passes(MIG, instance, 11)[-1])
    assert published["gpu_mig_info"] == {("NVIDIA H200 MIG 1g.18gb",): 1}
    assert published["gpu_mig_memory_used_bytes"] == {(): 10}
    assert published["gpu_mig_sm_active_seconds_total"] == {(): pytest.approx(5.0)}
    assert published["gpu_mig_tensor_active_seconds_total"] == {(): pytest.approx(10.0)}
    assert "gpu_mig_fp64_active_seconds_total" not in published


def test_mig_instance_of_an_a100_has_no_activity_and_asks_seldom() -> None:
    instance = FakeInstance({"nvmlDeviceGetMemoryInfo": Record(total=18, free=7, used=10)})
    published = samples(MIG, passes(MIG, instance, 60)[-1])
    assert "gpu_mig_memory_used_bytes" in published
    assert not [name for name in published if "active" in name]
    assert Counter(instance.functions)["nvmlGpmMetricsGet"] == 1


def test_pace_of_every_collector() -> None:
    assert {c.name for c in COLLECTORS if c.pace is Pace.PASS} == {
        "utilization", "gpm", "power", "throttle", "processes", "mig",
    }  # fmt: skip
