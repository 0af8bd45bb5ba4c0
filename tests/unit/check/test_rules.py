"""Each rule of the health check fires on what it is for, and on nothing beside it."""

from __future__ import annotations

import pytest

from exporter.check.facts import Facts, parse
from exporter.check.options import reference
from exporter.check.render import short
from exporter.check.rule import Limits, Verdict
from exporter.check.rules import NAMES, RECOVERY, RULES
from exporter.check.verdict import judge

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


def sxid(kind: str, ago: float = 60) -> str:
    labels = f'switch="1",pci_bus_id="0000:c1:00.0",sxid="20034",class="{kind}",link="30"'
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
    "fault": fault("xid", "XID 119", "reset"),
    "fault_degraded": fault("nvlink_down", "2 of 18 links down", "inspect"),
    **{f"recovery_{action}": series("gpu_recovery_action", 1, action=action) for action in RECOVERY},
    "xid_reset": xid(119),
    "xid_restart": xid(79),
    "xid_workflow": xid(74),
    "xid_support": xid(61),
    "ecc_uncorrectable": series("gpu_ecc_errors_total", 1, type="uncorrected"),
    "ecc_sram": series("gpu_ecc_sram_threshold_exceeded", 1),
    "row_remap_failed": series("gpu_row_remap_failed", 1),
    "row_remap_pending": series("gpu_row_remap_pending", 1),
    "page_pending": series("gpu_retired_pages_pending", 1),
    "fabric_state": series("gpu_fabric_state", 1, state="in_progress"),
    "fabric_route": series("gpu_fabric_unhealthy", 1, check="route_unhealthy"),
    "fabric_configuration": series("gpu_fabric_unhealthy", 1, check="incorrect_configuration"),
    "fabric_bandwidth": series("gpu_fabric_unhealthy", 1, check="degraded_bandwidth"),
    "fabric_recovery": series("gpu_fabric_unhealthy", 1, check="route_recovery"),
    "fabric_timeout": series("gpu_fabric_unhealthy", 1, check="access_timeout_recovery"),
    "fabric_cliques": "\n".join(clique(gpu, number) for gpu, number in ((0, 1), (1, 1), (2, 2))),
    "nvswitch_fatal": sxid("fatal"),
    "nvswitch_error": sxid("non_fatal"),
    "port_degraded": 'gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="slow"} 1',
    "nvlink_down": series("gpu_nvlink_link_up", 0, link="1"),
    "limited": series("gpu_power_limit_watts", 300) + "\n" + series("gpu_power_default_limit_watts", 700),
    "nvlink_errors": series("gpu_nvlink_errors_total", 1001, type="replay"),
    "leftover": series("gpu_process_memory_bytes", 2**30, pid="4711", command="python3"),
    "leaked": series("gpu_memory_unattributed_bytes", 2**30 + 1),
    "pcie_width": series("gpu_pcie_link_width", 8),
    "power_brake": series("gpu_throttle_active", 1, reason="hw_power_brake"),
    "hw_thermal": series("gpu_throttle_active", 1, reason="hw_thermal"),
    "temperature": series("gpu_temperature_margin_celsius", 2),
    "fan": series("gpu_fan_speed_rpm", 0, fan="0"),
    "reference": series("gpu_ecc_mode_enabled", 0),
    "reading": 'gpu_scrape_collector_success{collector="power"} 0',
}


def test_every_rule_has_a_case() -> None:
    assert set(FIRES) == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_fires_alone_and_decides_the_verdict(rule: object) -> None:
    name = rule.name  # type: ignore[attr-defined]
    report = judge(facts(FIRES[name]), LIMITS)

    assert [finding.rule for finding in report.findings] == [name]
    assert report.verdict is rule.verdict  # type: ignore[attr-defined]
    assert "{" not in report.findings[0].reason + report.findings[0].action
    assert judge(facts(FIRES[name]), LIMITS, [name]).verdict is Verdict.OK


def test_well_node_is_ok_whatever_is_normal() -> None:
    """A power cap, an idle PCIe generation, a killed job's XID 45 and corrected errors are nothing."""
    report = judge(facts(), Limits())

    assert (report.verdict, report.findings, report.gpus, report.models) == (Verdict.OK, (), 1, ("NVIDIA H200",))


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        (xid(79, ago=3601), Limits()),
        (xid(13), Limits()),
        (sxid("fatal", ago=3601), Limits()),
        (clique(0, 1) + "\n" + clique(1, 1), Limits()),
        ('gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="down"} 0', Limits()),
        (series("gpu_temperature_margin_celsius", 2), Limits(margin=1)),
        (series("gpu_fan_speed_rpm", 0, fan="0"), Limits(hot=80)),
        ('gpu_devices{source="driver"} 2', Limits()),
        (series("gpu_recovery_action", 0, action="gpu_reset"), Limits()),
        (series("gpu_nvlink_errors_total", 1000, type="recovery"), Limits()),
        (series("gpu_nvlink_errors_total", 5000, type="crc"), Limits()),
        (series("gpu_memory_unattributed_bytes", 2**30), Limits()),
        (
            f"{series('gpu_clock_hertz', 3.45e8, domain='sm')}\n{series('gpu_clock_max_hertz', 1.98e9, domain='sm')}",
            Limits(),
        ),
    ],
)
def test_just_beside_the_limit_is_ok(change: str, limits: Limits) -> None:
    assert judge(facts(change), limits).verdict is Verdict.OK


def test_port_in_trouble_is_told_of_the_gpu_next_to_it() -> None:
    near = f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="1",{DEVICE},path="PIX"}} 1'
    (finding,) = judge(facts(FIRES["port_degraded"], near), Limits()).findings

    assert finding.gpu == "0"
    assert finding.reason == "network port mlx5_0/1 is slower than it or its like were"


def test_unbridged_card_has_all_links_down_and_is_well() -> None:
    changes = [series("gpu_nvlink_link_up", 0, link=link) for link in ("0", "1")] + [series("gpu_nvlink_links_up", 0)]

    assert judge(facts(*changes), Limits()).verdict is Verdict.OK


def test_expected_count_wins_over_the_bus() -> None:
    report = judge(facts(), Limits(gpus=8))

    assert report.findings[0].reason == "the driver shows 1 of 8 GPUs expected"
    assert judge(facts(), Limits(gpus=1)).verdict is Verdict.OK


def test_temperature_is_judged_by_slowdown_where_no_margin_is_told() -> None:
    text = WELL.replace(f"gpu_temperature_margin_celsius{{{DEVICE}}} 12\n", "")
    slowdown = series("gpu_temperature_threshold_celsius", 77, threshold="slowdown")

    report = judge(parse(text + slowdown + "\n", NOW), Limits())

    assert [finding.rule for finding in report.findings] == ["temperature"]


def test_clock_that_is_low_under_load_is_found_with_the_power_limit() -> None:
    """The case that used to be silent: 300 of 700 W, at 345 MHz."""
    report = judge(
        facts(
            series("gpu_power_limit_watts", 300),
            series("gpu_power_default_limit_watts", 700),
            series("gpu_clock_hertz", 3.45e8, domain="sm"),
            series("gpu_clock_max_hertz", 1.98e9, domain="sm"),
            series("gpu_utilization_ratio", 1),
        ),
        Limits(),
    )

    assert [finding.reason for finding in report.findings] == [
        "the power limit is 300 of 700 W",
        "the SM clock is 345 of 1980 MHz",
    ]


def test_worst_comes_first() -> None:
    report = judge(facts(FIRES["hw_thermal"], FIRES["row_remap_failed"], FIRES["reading"]), Limits())

    assert [finding.rule for finding in report.findings] == ["row_remap_failed", "reading", "hw_thermal"]


NO_DRIVER = 'gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1'
BARE = f'gpu_exporter_build_info{{version="1",python="3"}} 1\n{NO_DRIVER}\n'


def test_node_without_gpus_is_ok_unless_some_are_expected() -> None:
    bare = parse(BARE + 'gpu_devices{source="pci"} 0\n', NOW)

    assert judge(bare, Limits()).verdict is Verdict.OK
    assert judge(bare, Limits()).remark == "no NVIDIA GPU in this node"
    assert judge(bare, Limits(gpus=4)).verdict is Verdict.FAILED


def test_without_a_driver_on_a_node_with_gpus_is_failed() -> None:
    assert judge(parse(BARE + 'gpu_devices{source="pci"} 8\n', NOW), Limits()).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("up 1\n", "not the metrics of gpu-exporter"),
        (WELL.replace(f"{NOW - 1}", f"{NOW - 90}"), "the exporter's last sample is 90 s old"),
        (BARE, "the driver is not available (LIBRARY_NOT_FOUND), and the PCI bus cannot be read"),
    ],
)
def test_what_cannot_be_judged_is_unknown(text: str, remark: str) -> None:
    report = judge(parse(text, NOW), Limits())

    assert (report.verdict, report.remark) == (Verdict.UNKNOWN, remark)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (('gpu_devices{source="enumerated"} 2',), "the driver shows 1 of 2 GPUs that it counts itself"),
        (('gpu_expected_devices{source="history"} 8',), "the driver shows 1 of 8 GPUs that were here before"),
        (
            ('gpu_expected_devices{source="slurm"} 8', 'gpu_expected_devices{source="history"} 4'),
            "the driver shows 1 of 8 GPUs in gres.conf",
        ),
    ],
)
def test_missing_gpu_is_found_without_a_view_of_the_bus(found: tuple[str, ...], reason: str) -> None:
    report = judge(facts(*found), Limits())

    assert [finding.reason for finding in report.findings] == [reason]
    assert report.verdict is Verdict.FAILED


def test_fault_that_is_kept_is_told_once() -> None:
    kept = (fault("xid", "XID 79", "restart"), fault("lost", "GPU_IS_LOST", "restart"))

    report = judge(facts(*kept, xid(79), series("gpu_up", 0)), Limits())

    assert {finding.rule for finding in report.findings} == {"fault"}
    assert short(report, Verdict.FAILED) == "GPU0 lost (XID 79)"
    assert all(finding.hands for finding in report.findings)


def test_total_that_never_goes_back_is_no_finding_where_faults_are_kept() -> None:
    report = judge(
        facts(series("gpu_ecc_errors_total", 1, type="uncorrected"), 'gpu_expected_devices{source="history"} 1'),
        Limits(),
    )

    assert report.findings == ()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_short_reason_fits_where_slurm_shows_twenty_characters(rule: object) -> None:
    name = rule.name  # type: ignore[attr-defined]
    report = judge(facts(FIRES[name]), LIMITS)

    assert 0 < len(short(report, report.verdict)) <= 24
    assert "{" not in short(report, report.verdict)


@pytest.mark.parametrize(
    ("name", "wanted", "found"),
    [
        ("ecc", "on", series("gpu_ecc_mode_enabled", 1)),
        ("persistence", "on", series("gpu_persistence_mode_enabled", 1)),
        ("power-limit", "700", series("gpu_power_limit_watts", 700)),
        ("driver", "580.1", 'gpu_driver_info{driver="580.1"} 1'),
        ("sm-clock", "1980", series("gpu_clock_max_hertz", 1.98e9, domain="sm")),
        ("memory-clock", "3201", series("gpu_clock_max_hertz", 3.201e9, domain="memory")),
        ("vbios", "96.00", series("gpu_info", 1, model="NVIDIA H200", vbios="96.00")),
    ],
)
def test_gpu_like_the_site_s_reference_is_well_and_another_is_not(name: str, wanted: str, found: str) -> None:
    assert judge(facts(found), Limits(reference={name: wanted})).findings == ()

    (finding,) = judge(facts(found), Limits(reference={name: "else"})).findings

    assert finding.reason == f"{name} is {wanted}, not else as in --check.reference"


@pytest.mark.parametrize("value", ["ecc", "ecc=", "colour=red", "ecc=on,ecc=off"])
def test_reference_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        reference(value)


def test_reference_is_read() -> None:
    assert reference("driver=580.95.05, ecc=on") == {"driver": "580.95.05", "ecc": "on"}
