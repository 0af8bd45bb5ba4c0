"""A node that is well as its exporter shows it, and the series by which each rule of the check fires."""

from __future__ import annotations

from exporter.faults.rule import Facts, Limits
from exporter.faults.rules import RECOVERY
from exporter.tools.check.exporter_page import parse

NOW = 1_800_000_000.0
DEVICE = 'gpu="0",uuid="GPU-a"'
WELL = f"""\
gpu_exporter_build_info{{version="1",python="3"}} 1
gpu_exporter_simulated 0
gpu_devices{{source="driver"}} 1
gpu_devices{{source="pci"}} 1
gpu_up{{{DEVICE}}} 1
gpu_info{{{DEVICE},model="NVIDIA H200"}} 1
gpu_temperature_celsius{{{DEVICE},sensor="gpu"}} 75
gpu_temperature_celsius{{{DEVICE},sensor="memory"}} 99
gpu_temperature_margin_celsius{{{DEVICE}}} 12
gpu_fan_speed_rpm{{{DEVICE},fan="0"}} 2100
gpu_pcie_link_width{{{DEVICE}}} 16
gpu_pcie_link_max_width{{{DEVICE}}} 16
gpu_pcie_link_generation{{{DEVICE}}} 1
gpu_pcie_link_max_generation{{{DEVICE}}} 5
gpu_nvlink_links_up{{{DEVICE}}} 11
gpu_ecc_errors_total{{{DEVICE},type="corrected"}} 400
gpu_ecc_errors_total{{{DEVICE},type="uncorrected"}} 0
gpu_ecc_sram_threshold_exceeded{{{DEVICE}}} 0
gpu_row_remap_pending{{{DEVICE}}} 0
gpu_row_remap_failed{{{DEVICE}}} 0
gpu_retired_pages_pending{{{DEVICE}}} 0
gpu_recovery_action{{{DEVICE},action="none"}} 1
gpu_fabric_state{{{DEVICE},state="completed"}} 1
gpu_fabric_unhealthy{{{DEVICE},check="route_unhealthy"}} 0
gpu_throttle_active{{{DEVICE},reason="hw_thermal"}} 0
gpu_throttle_active{{{DEVICE},reason="hw_power_brake"}} 0
gpu_throttle_active{{{DEVICE},reason="sw_power_cap"}} 1
gpu_xid_last_timestamp_seconds{{{DEVICE},xid="31"}} {NOW - 60}
gpu_xid_last_timestamp_seconds{{{DEVICE},xid="45"}} {NOW - 60}
gpu_scrape_collector_success{{collector="power"}} 1
gpu_exporter_last_sample_timestamp_seconds {NOW - 1}
"""


def facts(*changes: str) -> Facts:
    """The well node, with the lines of these series replaced or added."""
    names = tuple(change.rpartition(" ")[0] for change in changes)
    kept = [line for line in WELL.splitlines() if line.rpartition(" ")[0] not in names]
    return parse("\n".join((*kept, *changes)) + "\n", NOW)


def series(family: str, value: float, **labels: str) -> str:
    inner = ",".join((DEVICE, *(f'{key}="{text}"' for key, text in labels.items())))
    return f"{family}{{{inner}}} {value}"


def xid(number: int, ago: float = 60) -> str:
    return series("gpu_xid_last_timestamp_seconds", NOW - ago, xid=str(number))


def fault(kind: str, evidence: str, action: str) -> str:
    return series("gpu_fault_timestamp_seconds", NOW - 7200, fault=kind, evidence=evidence, action=action)


def sxid(kind: str, ago: float = 60, switch: int = 1) -> str:
    labels = f'switch="{switch}",pci_bus_id="0000:c1:00.0",sxid="20034",class="{kind}",link="30"'
    return f"gpu_nvswitch_sxid_last_timestamp_seconds{{{labels}}} {NOW - ago}"


def clique(gpu: int, number: int) -> str:
    cluster = "01234567-89ab-cdef-0123-456789abcdef"
    return f'gpu_fabric_info{{gpu="{gpu}",uuid="GPU-{gpu}",cluster_uuid="{cluster}",clique_id="{number}"}} 1'


LIMITS = Limits(reference={"ecc": "on"})
FIRES = {
    "driver": 'gpu_exporter_driver_error{error="LIB_RM_VERSION_MISMATCH"} 1',
    "driver_hangs": 'gpu_exporter_driver_error{error="NOT_OPENED"} 1',
    "gpu_missing": 'gpu_devices{source="driver"} 0',
    "gpu_down": series("gpu_up", 0),
    "lost": fault("lost", "GPU_IS_LOST", "restart"),
    "gpu_slow": fault("gpu_slow", "late answers", "inspect"),
    "xid": fault("xid", "XID 119", "reset"),
    "xid_pattern": fault("xid_pattern", "XID 31 of many programs", "inspect"),
    "ecc_uncorrectable": fault("ecc_uncorrectable", "1 uncorrectable error", "reset"),
    "ecc_sram_threshold": fault("ecc_sram_threshold", "over NVIDIA's threshold", "replace"),
    "row_remap_failed": fault("row_remap_failed", "no spare rows", "replace"),
    "nvlink_down": fault("nvlink_down", "2 of 18 links down", "inspect"),
    "pcie_width": fault("pcie_width", "8 of 16 PCIe lanes", "inspect"),
    "pcie_generation": fault("pcie_generation", "PCIe generation 2 of 5 under load", "inspect"),
    "nvswitch": fault("nvswitch", "NVSwitch 1: SXID 20034", "reset").replace(DEVICE, 'gpu="",uuid=""'),
    "inventory": 'gpu_expected_devices{source="slurm"} 1\ngpu_expected_devices{source="kubernetes"} 8',
    **{f"recovery_{action}": series("gpu_recovery_action", 1, action=action) for action in RECOVERY},
    "row_remap_pending": series("gpu_row_remap_pending", 1),
    "page_pending": series("gpu_retired_pages_pending", 1),
    "fabric_state": series("gpu_fabric_state", 1, state="in_progress"),
    "fabric_join": series("gpu_fabric_unhealthy", 1, check="join_failed"),
    "fabric_route": series("gpu_fabric_unhealthy", 1, check="route_unhealthy"),
    "fabric_configuration": series("gpu_fabric_unhealthy", 1, check="incorrect_configuration"),
    "fabric_bandwidth": series("gpu_fabric_unhealthy", 1, check="degraded_bandwidth"),
    "fabric_recovery": series("gpu_fabric_unhealthy", 1, check="route_recovery"),
    "fabric_timeout": series("gpu_fabric_unhealthy", 1, check="access_timeout_recovery"),
    "fabric_cliques": "\n".join(clique(gpu, number) for gpu, number in ((0, 1), (1, 1), (2, 2))),
    "nvswitch_error": sxid("non_fatal"),
    "port_degraded": 'gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="slow"} 1',
    "power_limit": series("gpu_power_limit_watts", 300) + "\n" + series("gpu_power_default_limit_watts", 700),
    "limited": "\n".join(
        (
            series("gpu_clock_hertz", 3.45e8, domain="sm"),
            series("gpu_clock_max_hertz", 1.98e9, domain="sm"),
            series("gpu_utilization_ratio", 1),
        )
    ),
    "nvlink_errors": series("gpu_nvlink_volatile_errors", 1001, type="replay"),
    "leftover": series("gpu_process_memory_bytes", 2**30, pid="4711", command="python3"),
    "leaked": series("gpu_memory_unattributed_bytes", 2**30 + 1),
    "hw_slowdown": series("gpu_throttle_active", 1, reason="hw_slowdown"),
    "power_brake": series("gpu_throttle_active", 1, reason="hw_power_brake"),
    "hw_thermal": series("gpu_throttle_active", 1, reason="hw_thermal"),
    "temperature": series("gpu_temperature_margin_celsius", 2),
    "fan": series("gpu_fan_speed_rpm", 0, fan="0"),
    "reference": series("gpu_ecc_mode_enabled", 0),
    "utilization_stuck": series("gpu_utilization_stuck", 1),
    "fault_state": "gpu_exporter_fault_state_saved 0",
    "owners": 'gpu_exporter_attribution_error{source="kubernetes",reason="missing"} 1',
    "reading": 'gpu_scrape_collector_success{collector="power"} 0',
}
