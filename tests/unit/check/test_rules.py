"""Each rule of the health check fires on what it is for, and on nothing beside it."""

from __future__ import annotations

import pytest

from exporter.faults.config import reference
from exporter.faults.evaluate import evaluate
from exporter.faults.findings import format_age
from exporter.faults.rule import Limits, Verdict
from exporter.faults.rules import NAMES, RULES
from exporter.tools.check.exporter_page import parse
from tests.unit.check.nodes import DEVICE, FIRES, LIMITS, NOW, WELL, clique, facts, series, sxid, xid


def test_fan_that_stands_is_found_beside_one_that_turns() -> None:
    """The driver gives revolutions of the first fan alone."""
    (finding,) = evaluate(facts(series("gpu_fan_speed_ratio", 0, fan="1")), LIMITS).findings

    assert finding.reason == "fan 1 stands still at 75 °C"


def test_every_rule_has_a_case() -> None:
    assert set(FIRES) == set(NAMES)
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_fires_alone_and_decides_the_verdict(rule: object) -> None:
    name = rule.name  # type: ignore[attr-defined]
    report = evaluate(facts(FIRES[name]), LIMITS)

    assert [finding.rule for finding in report.findings] == [name]
    assert report.verdict is rule.verdict  # type: ignore[attr-defined]
    assert "{" not in report.findings[0].reason + report.findings[0].action
    assert evaluate(facts(FIRES[name]), LIMITS, [name]).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("change", "limits"),
    [
        (xid(79), Limits()),
        (xid(13), Limits()),
        (sxid("non_fatal", ago=3601), Limits()),
        (series("gpu_throttle_active", 0, reason="hw_slowdown"), Limits()),
        (clique(0, 1) + "\n" + clique(1, 1), Limits()),
        ('gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="down"} 0', Limits()),
        (series("gpu_temperature_margin_celsius", 2), Limits(margin=1)),
        (series("gpu_fan_speed_rpm", 0, fan="0"), Limits(hot=80)),
        ('gpu_devices{source="driver"} 2', Limits()),
        (series("gpu_recovery_action", 0, action="gpu_reset"), Limits()),
        (series("gpu_nvlink_volatile_errors", 1000, type="recovery"), Limits()),
        (series("gpu_nvlink_volatile_errors", 5000, type="crc"), Limits()),
        (series("gpu_memory_unattributed_bytes", 2**30), Limits()),
        (
            f"{series('gpu_clock_hertz', 3.45e8, domain='sm')}\n{series('gpu_clock_max_hertz', 1.98e9, domain='sm')}",
            Limits(),
        ),
        (
            (
                f"{series('gpu_clock_hertz', 8.6e8, domain='sm')}\n"
                f"{series('gpu_clock_max_hertz', 2.04e9, domain='sm')}\n{series('gpu_utilization_ratio', 1)}\n"
                f"{series('gpu_power_watts', 65)}\n{series('gpu_power_default_limit_watts', 72)}"
            ),
            Limits(),
        ),
    ],
)
def test_just_beside_the_limit_is_ok(change: str, limits: Limits) -> None:
    assert evaluate(facts(change), limits).verdict is Verdict.OK


def test_port_in_trouble_is_told_of_the_gpu_next_to_it() -> None:
    near = f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="1",{DEVICE},path="PIX"}} 1'
    (finding,) = evaluate(facts(FIRES["port_degraded"], near), Limits()).findings

    assert finding.gpu == "0"
    assert finding.reason == "network port mlx5_0/1 is slower than it or its like were"


def test_expected_count_wins_over_the_bus() -> None:
    report = evaluate(facts(), Limits(gpus=8))

    assert report.findings[0].reason == "the driver shows 1 of 8 GPUs expected"
    assert evaluate(facts(), Limits(gpus=1)).verdict is Verdict.OK


def test_temperature_is_judged_by_slowdown_where_no_margin_is_told() -> None:
    text = WELL.replace(f"gpu_temperature_margin_celsius{{{DEVICE}}} 12\n", "")
    slowdown = series("gpu_temperature_threshold_celsius", 77, threshold="slowdown")

    report = evaluate(parse(text + slowdown + "\n", NOW), Limits())

    assert [finding.rule for finding in report.findings] == ["temperature"]


def test_margin_is_judged_where_the_temperature_itself_is_not_told() -> None:
    text = WELL.replace(f'gpu_temperature_celsius{{{DEVICE},sensor="gpu"}} 75\n', "")
    little = text.replace(
        f"gpu_temperature_margin_celsius{{{DEVICE}}} 12\n", series("gpu_temperature_margin_celsius", 2) + "\n"
    )

    assert evaluate(parse(text, NOW), Limits()).findings == ()
    (finding,) = evaluate(parse(little, NOW), Limits()).findings
    assert (finding.gpu, finding.rule) == ("0", "temperature")
    assert finding.reason == "2 degrees left before it slows down (at an unknown number of °C)"


def test_clock_that_is_low_under_load_is_found_with_the_power_limit() -> None:
    """The case that used to be silent: 300 of 700 W, at 345 MHz."""
    report = evaluate(
        facts(
            series("gpu_power_limit_watts", 300),
            series("gpu_power_default_limit_watts", 700),
            series("gpu_clock_hertz", 3.45e8, domain="sm"),
            series("gpu_clock_max_hertz", 1.98e9, domain="sm"),
            series("gpu_utilization_ratio", 1),
        ),
        Limits(),
    )

    assert [(finding.rule, finding.reason) for finding in report.findings] == [
        ("power_limit", "the power limit is 300 of 700 W"),
        ("limited", "the SM clock is 345 of 1980 MHz"),
    ]


def low_clock(*more: str) -> tuple[str, ...]:
    return (
        series("gpu_clock_hertz", 3e8, domain="sm"),
        series("gpu_clock_max_hertz", 2.1e9, domain="sm"),
        series("gpu_utilization_ratio", 0.6),
        *more,
    )


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ((series("gpu_performance_state", 8),), Verdict.OK),
        ((series("gpu_performance_state", 8), series("gpu_throttle_active", 1, reason="app_clocks")), Verdict.DEGRADED),
        ((series("gpu_performance_state", 0),), Verdict.DEGRADED),
        ((), Verdict.DEGRADED),
    ],
)
def test_low_clock_of_light_work_is_ok_and_a_held_one_is_not(more: tuple[str, ...], verdict: Verdict) -> None:
    quiet = series("gpu_throttle_active", 0, reason="sw_power_cap")

    assert evaluate(facts(*low_clock(quiet, *more)), Limits()).verdict is verdict


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
    assert evaluate(facts(found), Limits(reference={name: wanted})).findings == ()

    (finding,) = evaluate(facts(found), Limits(reference={name: "else"})).findings

    assert finding.reason == f"{name} is {wanted}, not else as in --expect.reference"


def test_fault_that_says_the_same_is_one_finding() -> None:
    lanes = series("gpu_pcie_link_width", 8)
    fault = series(
        "gpu_fault_timestamp_seconds", 1, fault="pcie_width", action="inspect", evidence="8 of 16 PCIe lanes"
    )

    for found in ((lanes,), (lanes, fault)):
        (finding,) = evaluate(facts(*found), Limits(reference={"pcie-width": "16"})).findings
        assert finding.rule == ("pcie_width" if fault in found else "reference")


@pytest.mark.parametrize("value", ["ecc", "ecc=", "colour=red", "ecc=on,ecc=off"])
def test_reference_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        reference(value)


def test_reference_is_read() -> None:
    assert reference("driver=580.95.05, ecc=on") == {"driver": "580.95.05", "ecc": "on"}
    assert reference("power-limit=700.0,sm-clock=1980") == {"power-limit": "700", "sm-clock": "1980"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("ecc=maybe", "ecc to be on or off, got 'maybe'"),
        ("persistence=1", "persistence to be on or off, got '1'"),
        ("power-limit=700W", "power-limit to be a number, got '700W'"),
        ("memory-clock=nan", "memory-clock to be a number, got 'nan'"),
    ],
)
def test_value_that_no_gpu_can_have_is_refused(value: str, expected: str) -> None:
    """Every GPU would differ from it."""
    with pytest.raises(ValueError, match=expected):
        reference(value)


@pytest.mark.parametrize(
    ("seconds", "text"), [(-5.0, "0 s"), (100.0, "100 s"), (360.0, "6 min"), (18000.0, "5 h"), (259200.0, "3 d")]
)
def test_how_long_ago_is_as_one_says_it(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
