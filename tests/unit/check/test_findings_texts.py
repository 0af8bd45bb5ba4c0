"""Every finding there is, word for word, and each report in every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.devices import DeviceName
from exporter.core.clock import UnixTime
from exporter.faults.evaluate import STAGES, Report, evaluate, unknown_report
from exporter.faults.reference import REFERENCES
from exporter.faults.rule import Facts, Finding, Limits, Series, Verdict, series_above, series_labelled
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.program import command as words
from exporter.tools.check.program import finding_of
from exporter.tools.check.render import FORMATS, short
from exporter.tools.report.terminal import Colors
from tests.golden import compare
from tests.unit.check.nodes import DEVICE, FIRES, LIMITS, NOW, facts, fault, series, sxid, xid

GOLDEN = Path(__file__).parent / "golden"
OTHER = 'gpu="11",uuid="GPU-b"'


def many(family: str, value: float, count: int) -> str:
    """Processes of one GPU, the later the larger."""
    return "\n".join(
        f'{family}{{{DEVICE},pid="{pid}",command="{"python3" if pid else ""}"}} {value + pid}' for pid in range(count)
    )


CASES: Mapping[str, tuple[str, Limits]] = {
    **{name: (text, LIMITS) for name, text in FIRES.items()},
    "missing on the bus": ('gpu_devices{source="pci"} 8\ngpu_devices{source="enumerated"} 4', Limits()),
    "missing in Slurm": ('gpu_devices{source="pci"} 2\ngpu_expected_devices{source="slurm"} 8', Limits()),
    "missing in Kubernetes": ('gpu_expected_devices{source="kubernetes"} 3', Limits()),
    "missing in history": ('gpu_expected_devices{source="history"} 3', Limits(gpus=2)),
    "missing by option": ('gpu_expected_devices{source="history"} 3', Limits(gpus=4)),
    "missing and told as lost": (
        f'gpu_devices{{source="pci"}} 2\n{fault("lost", "XID 79", "restart").replace(DEVICE, OTHER)}',
        Limits(),
    ),
    "driver not there": ('gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1', Limits()),
    "no GPU and no driver": (
        'gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1\ngpu_devices{source="pci"} 0',
        Limits(),
    ),
    "no driver on an expected GPU": (
        'gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1\ngpu_devices{source="pci"} 0',
        Limits(gpus=1),
    ),
    **{
        f"fault {kind} {action}": (fault(kind, "evidence", action), Limits())
        for kind, action in (
            ("ecc_uncorrectable", "reset_when_idle"),
            ("ecc_sram_threshold", "replace"),
            ("row_remap_failed", "procedure"),
            ("nvlink_down", "vendor"),
            ("xid", "unheard_of"),
        )
    },
    "down and kept as lost": (f"{series('gpu_up', 0)}\n{fault('lost', 'XID 79', 'restart')}", Limits()),
    "total where faults are kept": (
        f'{series("gpu_ecc_errors_total", 3, type="uncorrected")}\ngpu_expected_devices{{source="pci"}} 1',
        Limits(),
    ),
    "XID that is kept": (f"{xid(79)}\n{fault('xid', 'XID 79', 'restart')}", Limits()),
    "XID of the future": (xid(79, ago=-60), Limits()),
    "XID at the end of the window": (xid(79, ago=3600), Limits()),
    "XID that nobody knows": (xid(999), Limits()),
    "SXID at the end of the window": (sxid("fatal", ago=3600), Limits()),
    "SXID that is kept": (
        (
            f"{sxid('fatal')}\n"
            'gpu_fault_timestamp_seconds{gpu="",uuid="",fault="nvswitch",evidence="NVSwitch 1: SXID 20034",'
            f'action="reset"}} {NOW - 60}'
        ),
        Limits(),
    ),
    "port down": ('gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="down"} 1', Limits()),
    "port with errors": ('gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="errors"} 1', Limits()),
    "port, who knows": ('gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="new"} 1', Limits()),
    "port of two GPUs": (
        (
            'gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="down"} 1\n'
            f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="1",{DEVICE},path="PIX"}} 1\n'
            f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="1",{OTHER},path="PIX"}} 1'
        ),
        Limits(),
    ),
    "port of one GPU, whose neighbour is of another": (
        (
            'gpu_rdma_port_degraded{device="mlx5_0",port="1",reason="down"} 1\n'
            f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="1",{DEVICE},path="PIX"}} 1\n'
            f'gpu_rdma_port_nearest_gpu_info{{device="mlx5_0",port="2",{OTHER},path="PIX"}} 1'
        ),
        Limits(),
    ),
    "one SXID of two switches": ("\n".join(sxid("fatal", switch=switch) for switch in (1, 2)), Limits()),
    "links down, counted by the exporter": (
        "\n".join(series("gpu_nvlink_link_up", 0, link=link) for link in ("10", "9")),
        Limits(),
    ),
    "links down and kept": (
        f"{series('gpu_nvlink_link_up', 0, link='1')}\n{fault('nvlink_down', '1 of 12 links down', 'reset')}",
        Limits(),
    ),
    "collector that fails for want of a driver": (
        'gpu_exporter_driver_error{error="X"} 1\ngpu_scrape_collector_success{collector="power"} 0',
        Limits(),
    ),
    "links down, each told": (
        f'gpu_nvlink_link_up{{{OTHER},link="0"}} 1\ngpu_nvlink_link_up{{{OTHER},link="1"}} 0',
        Limits(),
    ),
    "clock": (
        (
            f"{series('gpu_clock_hertz', 9.8e8, domain='sm')}\n{series('gpu_clock_max_hertz', 1.98e9, domain='sm')}\n"
            f"{series('gpu_utilization_ratio', 0.51)}"
        ),
        Limits(),
    ),
    "temperature at its margin": (series("gpu_temperature_margin_celsius", 3), Limits(margin=3)),
    "temperature below its margin": (series("gpu_temperature_margin_celsius", 2.5), Limits(margin=3)),
    "fan by its share": (
        f'gpu_temperature_celsius{{{OTHER},sensor="gpu"}} 71\ngpu_fan_speed_ratio{{{OTHER},fan="1"}} 0',
        Limits(hot=70),
    ),
    "fan of a cool GPU": (series("gpu_fan_speed_rpm", 0, fan="0"), Limits(hot=75)),
    "two left": (many("gpu_process_memory_bytes", 2**30, 2), Limits()),
    "five left": (many("gpu_process_memory_bytes", 2**30, 5), Limits()),
    "left on a GPU that is not looked at": (
        many("gpu_process_memory_bytes", 1, 1),
        Limits(emptied=(DeviceName(minor=7),)),
    ),
    "left on a GPU that is": (many("gpu_process_memory_bytes", 1, 1), Limits(emptied=(DeviceName(minor=0),))),
    "leaked on a GPU that is not looked at": (
        series("gpu_memory_unattributed_bytes", 2**33),
        Limits(emptied=(DeviceName(uuid="GPU-z"),)),
    ),
    "errors at the limit": (series("gpu_nvlink_volatile_errors", 7, type="link_recovery"), Limits(link_errors=7)),
    "errors together over it": (
        "\n".join(series("gpu_nvlink_volatile_errors", 4, type=kind) for kind in ("link_recovery", "recovery", "crc")),
        Limits(link_errors=7),
    ),
}


def written(report: Report) -> str:
    head = f"{report.verdict.word}, {report.gpus} GPUs{f': {report.remark}' if report.remark else ''}\n"
    return head + "".join(
        f"  {f.rule} {f.verdict.word} [{f.gpu} {f.uuid}] {f.reason} | {f.action} | {f.short} | hands {f.hands}\n"
        for f in report.findings
    )


def test_findings_are_what_they_were(request: pytest.FixtureRequest) -> None:
    text = "".join(f"{name}: {written(evaluate(facts(change), limits))}" for name, (change, limits) in CASES.items())

    compare(GOLDEN / "findings.txt", text, request)


LOST = Finding("gpu_down", Verdict.FAILED, "3", "GPU-x", "does not answer | its driver", "Restart it.", "lost")
XID = Finding("xid_restart", Verdict.FAILED, "3", "GPU-x", "XID 79", "Restart the node.", "XID 79")
HOT = Finding("hw_thermal", Verdict.DEGRADED, "12", "GPU-y", "heat lowers the clocks", "Check fans.", "hot")
NODE = Finding("port_degraded", Verdict.DEGRADED, "", "", "port is down", "Look at the cable.", "port")
REPORTS: Mapping[str, Report] = {
    "all well": Report(Verdict.OK, (), 8, ("NVIDIA H200",) * 7 + ("Tesla T4",)),
    "one GPU": Report(Verdict.OK, (), 1, ()),
    "no GPU": Report(Verdict.OK, (), 0, (), remark="no NVIDIA GPU in this node"),
    "simulated": Report(Verdict.DEGRADED, (HOT, NODE), 8, ("NVIDIA H200",), simulated=True),
    "failed": Report(Verdict.FAILED, (XID, LOST, LOST, HOT, NODE), 7, ("NVIDIA H200",) * 8),
    "unknown": unknown_report("nobody | answers"),
}


def test_formats_are_what_they_were(request: pytest.FixtureRequest) -> None:
    text = ""
    for name, report in REPORTS.items():
        for form, render in FORMATS.items():
            text += f"== {name}, {form}\n{render(report, Colors(colours=form == 'text'))}"
        text += f"== {name}, short\n{short(report, Verdict.FAILED)}\n{short(report, Verdict.DEGRADED)}\n"
        text += f"== {name}, summary\n{report.summary}\n"

    compare(GOLDEN / "formats.txt", text, request)


def test_finding_joins_a_report_in_its_place() -> None:
    good, bad = REPORTS["all well"], REPORTS["simulated"]

    assert bad.with_finding(LOST) == replace(bad, verdict=Verdict.FAILED, findings=(LOST, NODE, HOT))
    assert good.with_finding(HOT) == replace(good, verdict=Verdict.DEGRADED, findings=(HOT,))
    assert unknown_report("x").with_finding(LOST) == Report(Verdict.UNKNOWN, (), 0, (), remark="x")


@pytest.mark.parametrize(
    ("text", "limits", "remark"),
    [
        ("up 1\n", Limits(), "not the metrics of gpu-exporter"),
        (
            f"gpu_exporter_build_info 1\ngpu_exporter_last_sample_timestamp_seconds {NOW - 60.6}\n",
            Limits(stale=60),
            "the exporter's last sample is 61 s old",
        ),
        (
            f"gpu_exporter_build_info 1\ngpu_exporter_last_sample_timestamp_seconds {NOW - 60}\ngpu_up 1\n",
            Limits(stale=60),
            "",
        ),
        ("gpu_exporter_build_info 1\n", Limits(), "no GPU is shown, and no reason for it is known"),
        ("gpu_exporter_build_info 1\ngpu_up NaN\n", Limits(), "no GPU is shown, and no reason for it is known"),
        (
            "gpu_exporter_build_info 1\ngpu_up 1\ngpu_fault_timestamp_seconds 1\n",
            Limits(),
            "the exporter reports faults that are newer than this check: ",
        ),
        (
            'gpu_exporter_build_info 1\ngpu_exporter_driver_error{error="DRIVER_NOT_LOADED"} 1\n',
            Limits(),
            "the driver is not available (DRIVER_NOT_LOADED), and the PCI bus cannot be read",
        ),
        ('gpu_exporter_build_info 1\ngpu_exporter_driver_error{error="DRIVER_NOT_LOADED"} 1\n', Limits(gpus=1), ""),
        ('gpu_exporter_build_info 1\ngpu_exporter_driver_error{error="NOT_OPENED"} 1\n', Limits(), ""),
    ],
)
def test_what_is_not_judged(text: str, limits: Limits, remark: str) -> None:
    assert evaluate(parse(text, UnixTime(NOW)), limits).remark == remark


def test_series_over_a_number_and_series_in_a_state() -> None:
    known = Facts(
        {"a": (Series({"gpu": "1", "state": "x"}, 1.5), Series({"gpu": "2", "state": "x"}, 1.0))}, UnixTime(0)
    )

    assert list(series_above("a", 1.0)(known, Limits())) == [("1", {"gpu": "1", "state": "x", "value": "1.5"})]
    assert list(series_above("a", 0.5, gpu="2")(known, Limits())) == [("2", {"gpu": "2", "state": "x", "value": "1"})]
    assert list(series_labelled("a", "state", ("x",))(known, Limits())) == [
        ("2", {"gpu": "2", "state": "x", "value": "1"})
    ]
    assert list(series_labelled("a", "state", ("y",))(known, Limits())) == []


@pytest.mark.parametrize(
    ("name", "value", "labels", "shown"),
    [
        ("driver", 1.0, {"driver": "580"}, "580"),
        ("driver", 1.0, {}, ""),
        ("vbios", 1.0, {"vbios": "96"}, "96"),
        ("model", 1.0, {"model": "NVIDIA H200"}, "NVIDIA H200"),
        ("ecc", 1.0, {}, "on"),
        ("ecc", 0.0, {}, "off"),
        ("ecc", 2.0, {}, ""),
        ("persistence", 1.0, {}, "on"),
        ("power-limit", 700.0, {}, "700"),
        ("sm-clock", 1.98e9, {}, "1980"),
        ("memory-clock", 2.619e9, {}, "2619"),
    ],
)
def test_reference_as_text(name: str, value: float, labels: dict[str, str], shown: str) -> None:
    assert REFERENCES[name].value(Series(labels, value)) == shown


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("false", "false: status 1"),
        ("sh -c 'echo first; echo; echo \" last \"; exit 3'", "sh: last"),
        ("sh -c 'echo verdict >&2; exit 3'", "sh: verdict"),
        ("sh -c 'echo warning >&2; echo verdict; exit 3'", "sh: verdict"),
        ("sh -c 'yes GB/s'", "sh: prints more than 16 MiB"),
    ],
)
def test_finding_of_the_sites_program(command: str, reason: str) -> None:
    name = reason.partition(":")[0]

    assert finding_of(words(command), 60.0) == Finding(
        rule="program",
        verdict=Verdict.FAILED,
        gpu="",
        uuid="",
        reason=reason,
        action="Run it by hand and read all it prints.",
        short=f"{name[:16]} fails",
        hands=True,
    )


def test_stages_leave_out_what_is_no_fault_then() -> None:
    late = {"leftover", "leaked"}

    assert {name for name, stage in STAGES.items() if late <= stage.left_out} == {"prolog", "periodic"}
    assert STAGES["full"].left_out == frozenset()
    assert STAGES["periodic"].left_out == late
    heat = facts(FIRES["hw_thermal"])
    assert evaluate(heat, Limits(), least=STAGES["epilog"].least).findings == ()
    assert evaluate(heat, Limits(), least=STAGES["periodic"].least).findings != ()
