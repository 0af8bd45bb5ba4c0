"""What each collector publishes of a GPU and its memory: units, and what is absent where the driver lacks it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from exporter.collectors.base import AnyCollector, Tick
from exporter.collectors.clocks import CLOCKS
from exporter.collectors.ecc import ECC, REMAPPED_ROWS, RETIRED_PAGES
from exporter.collectors.health import HEALTH
from exporter.collectors.info import INFO, numa_node
from exporter.collectors.memory import MEMORY
from exporter.collectors.mig import MIG
from exporter.collectors.pcie import PCIE
from exporter.collectors.power import POWER
from exporter.collectors.temperature import TEMPERATURE
from exporter.collectors.utilization import ENGINES
from exporter.core.clock import UnixTime
from exporter.driver.interface import Record, UnsupportedError
from tests.unit.collectors.answers import FakeDevice, FakeInstance, by_argument, cycles, first, hopper, samples


def test_memory_counts_reserved_apart_and_omits_it_where_the_driver_does() -> None:
    assert first(MEMORY, hopper())["gpu_memory_reserved_bytes"] == {(): 100}
    old = FakeDevice({"nvmlDeviceGetMemoryInfo": Record(total=10, free=4, used=6)})
    assert set(first(MEMORY, old)) == {"gpu_memory_total_bytes", "gpu_memory_used_bytes", "gpu_memory_free_bytes"}


def test_gpu_that_shares_the_memory_of_the_machine_has_its_window_alone() -> None:
    """As a GB10, of which the driver reports no device memory."""
    device = FakeDevice({"nvmlDeviceGetBAR1MemoryInfo": Record(bar1Total=2000, bar1Free=1990, bar1Used=10)})
    assert first(MEMORY, device) == {
        "gpu_bar1_memory_total_bytes": {(): 2000},
        "gpu_bar1_memory_used_bytes": {(): 10},
    }


def test_memory_shared_with_the_machine_is_that_of_the_processes() -> None:
    """Two lists name one process; one process does not report its memory."""
    compute = (Record(pid=7, usedGpuMemory=5000), Record(pid=8, usedGpuMemory=None))
    device = FakeDevice(
        {
            "nvmlDeviceGetComputeRunningProcesses": compute,
            "nvmlDeviceGetGraphicsRunningProcesses": (
                Record(pid=7, usedGpuMemory=5000),
                Record(pid=9, usedGpuMemory=70),
            ),
        }
    )
    device.system_memory = 128_000
    assert MEMORY.read(device, None, Tick(UnixTime(0.0), 0.0)).shared
    assert first(MEMORY, device) == {
        "gpu_memory_total_bytes": {(): 128_000},
        "gpu_memory_used_bytes": {(): 5070},
    }


def test_gpu_with_memory_of_its_own_never_has_that_of_the_machine() -> None:
    """The driver refuses for a moment, or answers what cannot be: all bits set."""
    device = hopper()
    device.answers["nvmlDeviceGetComputeRunningProcesses"] = (Record(pid=7, usedGpuMemory=5000),)
    device.system_memory = 128_000
    reading = MEMORY.read(device, None, Tick(UnixTime(0.0), 0.0))
    total = reading.total
    device.answers["nvmlDeviceGetMemoryInfo"] = UnsupportedError("for a moment")
    for seconds in (5.0, 10.0):
        reading = MEMORY.read(device, reading, Tick(UnixTime(seconds), 5.0))

        assert (reading.shared, reading.total, reading.used, reading.free) == (False, total, None, None)


def test_process_of_several_lists_has_the_memory_that_one_of_them_knows() -> None:
    device = FakeDevice(
        {
            "nvmlDeviceGetComputeRunningProcesses": (Record(pid=7, usedGpuMemory=5000),),
            "nvmlDeviceGetGraphicsRunningProcesses": (Record(pid=7, usedGpuMemory=None),),
        }
    )

    assert MEMORY.read(device, None, Tick(UnixTime(0.0), 0.0)).used == 5000


def energy(
    device: FakeDevice, watts: list[float], seconds: float = 1.0, joules: list[int | None] | None = None
) -> float | None:
    """Energy after one reading per power in `watts`, `seconds` apart."""
    reading = None
    for index, each in enumerate(watts):
        device.answers["nvmlDeviceGetPowerUsage"] = int(each * 1000)
        if joules and joules[index] is not None:
            device.answers["nvmlDeviceGetTotalEnergyConsumption"] = joules[index]
        reading = POWER.read(device, reading, Tick(UnixTime(index * seconds), seconds if index else 0.0))
    assert reading
    return reading.energy


def test_energy_without_a_counter_is_integrated_from_power() -> None:
    assert energy(FakeDevice(), [100.0, 200.0, 200.0]) == pytest.approx(150.0 + 200.0)
    assert energy(FakeDevice(), [100.0]) is None
    assert energy(FakeDevice(), [100.0, 100.0, 100.0], seconds=100.0) is None  # nothing is known of what was between


def test_counter_that_comes_late_makes_no_leap() -> None:
    assert energy(FakeDevice(), [100.0] * 3, joules=[None, 5_000_000, 5_100_000]) == 5100.0
    assert energy(FakeDevice(), [100.0] * 4, joules=[None, None, 5_000_000, 5_100_000]) == pytest.approx(300.0)


def test_power_converts_to_watts_and_joules() -> None:
    published = first(POWER, hopper())
    assert published["gpu_power_watts"] == {(): 650.5}
    assert published["gpu_power_limit_watts"] == {(): 700.0}
    assert published["gpu_power_min_limit_watts"] == {(): 200.0}
    assert published["gpu_energy_joules_total"] == {(): 123456.789}


def test_power_reads_limits_every_thirty_seconds() -> None:
    device = hopper()
    cycles(POWER, device, 60)
    calls = Counter(device.functions)
    assert calls["nvmlDeviceGetPowerUsage"] == 60
    assert calls["nvmlDeviceGetEnforcedPowerLimit"] == 2


def test_power_of_limit() -> None:
    assert cycles(POWER, hopper(), 1)[0].of_limit == pytest.approx(650.5 / 700)


def test_clocks_are_hertz_and_an_unknown_state_is_absent() -> None:
    device = hopper()
    device.answers["nvmlDeviceGetPerformanceState"] = 32
    published = first(CLOCKS, device)
    assert published["gpu_clock_hertz"][("memory",)] == 3201e6
    assert published["gpu_clock_max_hertz"][("video",)] == 1545e6
    assert "gpu_performance_state" not in published


def test_engines_are_ratios() -> None:
    device = hopper()
    for percent, engine in enumerate(("Encoder", "Decoder", "Jpg", "Ofa"), 11):
        device.answers[f"nvmlDeviceGet{engine}Utilization"] = (percent, 167000)

    assert first(ENGINES, device) == {
        f"gpu_{engine}_utilization_ratio": {(): ratio}
        for engine, ratio in (("encoder", 0.11), ("decoder", 0.12), ("jpeg", 0.13), ("ofa", 0.14))
    }


def test_info_describes_the_gpu() -> None:
    published = first(INFO, hopper())
    assert published["gpu_info"] == {
        ("NVIDIA H200", "0000:1a:00.0", "1650000000000", "96.00.B7.00.01", "hopper", "9.0", "1", "0"): 1
    }
    assert published["gpu_mig_mode_enabled"] == {(): 0}


def test_what_a_gpu_is_stays_known_where_it_is_refused_for_once() -> None:
    device = hopper()
    (before,) = cycles(INFO, device, 1)
    device.answers = {}

    assert samples(INFO, INFO.read(device, before, Tick(1030.0, 30.0)))["gpu_info"] == samples(INFO, before)["gpu_info"]


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


def test_threshold_that_was_set_is_not_unset() -> None:
    limits = [96, 93, 0, 89]
    device = FakeDevice({"nvmlDeviceGetTemperature": 70, "nvmlDeviceGetTemperatureThreshold": by_argument(*limits)})
    known = cycles(TEMPERATURE, device, 1)[0]
    device.answers["nvmlDeviceGetTemperatureThreshold"] = by_argument(0, 0, 0, 88)

    later = TEMPERATURE.read(device, known, Tick(1030.0, 30.0))

    assert later.thresholds.value.celsius == {"shutdown": 96, "slowdown": 93, "gpu_max": 88}


def test_unsupported_fields_are_asked_once() -> None:
    device = hopper()
    cycles(ECC, device, 3, 30.0)
    batches = [entries for function, *entries in device.asked if function == "nvmlDeviceGetFieldValues"]
    assert [len(batch[0]) for batch in batches] == [15, 15, 15]
    del device.fields[(17, 0)], device.fields[(16, 0)]
    device.asked.clear()
    cycles(ECC, device, 2, 30.0)
    batches = [entries for function, *entries in device.asked if function == "nvmlDeviceGetFieldValues"]
    assert [len(batch[0]) for batch in batches] == [15, 13]


def test_ecc_reading_has_its_time_and_the_same_counts_are_the_same_reading() -> None:
    early, late = (ECC.read(hopper(), None, Tick(UnixTime(time), 0.0)) for time in (100.0, 130.0))

    assert (early.read_at, late.read_at) == (100.0, 130.0)
    assert replace(early, fields=late.fields) == late


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


@pytest.mark.parametrize(
    ("collector", "field", "call", "family"),
    [(ECC, (4, 0), "nvmlDeviceGetTotalEccErrors", "gpu_ecc_errors_total"),
     (PCIE, (94, 0), "nvmlDeviceGetPcieReplayCounter", "gpu_pcie_replays_total")],
)  # fmt: skip
def test_counter_whose_field_is_refused_for_a_moment_is_not_taken_from_elsewhere(
    collector: AnyCollector, field: tuple[int, int], call: str, family: str
) -> None:
    """A driver that answers 0 for once does so in both places: what was counted would be counted again."""
    device = FakeDevice({call: 0, "nvmlDeviceGetCurrPcieLinkWidth": 16}, {field: 5, (6, 0): 5})
    (before,) = cycles(collector, device, 1)
    del device.fields[field]

    refused = collector.read(device, before, Tick(1031.0, 31.0))

    assert family in samples(collector, before)
    assert ("uncorrected",) not in samples(collector, refused).get(family, {})
    assert () not in samples(collector, refused).get(family, {})


def test_retired_pages() -> None:
    published = first(RETIRED_PAGES, FakeDevice({}, {(29, 0): 2, (30, 0): 1, (31, 0): 1}))
    assert published["gpu_retired_pages_total"] == {("single_bit",): 2, ("double_bit",): 1}
    assert published["gpu_retired_pages_pending"] == {(): 1}


def test_errors_of_on_chip_memory_are_those_since_the_driver_was_loaded() -> None:
    """By the numbers of nvml.h: corrected 0 and uncorrected 1, volatile 0 and aggregate 1, SRAM 7."""
    counts = {(0, 0, 7): 3, (1, 0, 7): 2, (0, 1, 7): 90, (1, 1, 7): 80}
    device = FakeDevice({"nvmlDeviceGetMemoryErrorCounter": lambda *asked: counts[asked]})

    assert first(ECC, device)["gpu_ecc_location_errors_total"] == {
        ("corrected", "sram"): 3,
        ("uncorrected", "sram"): 2,
    }


def test_remapped_rows() -> None:
    device = hopper()
    device.answers["nvmlDeviceGetRemappedRows"] = (1, 2, 1, 0)
    published = first(REMAPPED_ROWS, device)
    assert published["gpu_remapped_rows_total"] == {("correctable",): 1, ("uncorrectable",): 2}
    assert published["gpu_row_remap_pending"] == {(): 1.0}
    assert published["gpu_row_remap_failed"] == {(): 0.0}
    device.answers["nvmlDeviceGetRemappedRows"] = (1, 2, 0, 1)
    assert first(REMAPPED_ROWS, device)["gpu_row_remap_failed"] == {(): 1.0}
    assert published["gpu_row_remap_banks"] == {("low",): 0, ("none",): 0}


@pytest.mark.parametrize(("code", "action"), [(0, "none"), (2, "node_reboot"), (7, "system_reboot"), (8, "unknown")])
def test_recovery_action_is_one_series(code: int, action: str) -> None:
    assert first(HEALTH, FakeDevice({}, {(230, 0): code})) == {"gpu_recovery_action": {(action,): 1.0}}


def test_mig_instance_of_a_hopper() -> None:
    instance = FakeInstance(
        {
            "nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb",
            "nvmlDeviceGetMemoryInfo": Record(total=18, reserved=1, free=7, used=10),
            "nvmlGpmMetricsGet": {2: 50.0, 5: 130.0},
        }
    )
    published = samples(MIG, cycles(MIG, instance, 11)[-1])
    assert published["gpu_mig_info"] == {("NVIDIA H200 MIG 1g.18gb",): 1}
    assert published["gpu_mig_memory_used_bytes"] == {(): 10}
    assert published["gpu_mig_sm_active_seconds_total"] == {(): pytest.approx(5.0)}
    assert published["gpu_mig_tensor_active_seconds_total"] == {(): pytest.approx(10.0)}
    assert "gpu_mig_fp64_active_seconds_total" not in published


def test_what_a_mig_instance_is_and_its_memory_are_asked_for_as_seldom_as_they_change() -> None:
    instance = FakeInstance({"nvmlDeviceGetName": "NVIDIA H200 MIG 1g.18gb", "nvmlGpmMetricsGet": {}})
    cycles(MIG, instance, 60)

    assert Counter(instance.functions) == {
        "nvmlDeviceGetName": 2,
        "nvmlDeviceGetMemoryInfo": 12,
        "nvmlGpmMetricsGet": 60,
    }


def test_mig_instance_of_an_a100_has_no_activity_and_asks_seldom() -> None:
    instance = FakeInstance({"nvmlDeviceGetMemoryInfo": Record(total=18, free=7, used=10)})
    published = samples(MIG, cycles(MIG, instance, 60)[-1])
    assert "gpu_mig_memory_used_bytes" in published
    assert not [name for name in published if "active" in name]
    assert Counter(instance.functions)["nvmlGpmMetricsGet"] == 1
