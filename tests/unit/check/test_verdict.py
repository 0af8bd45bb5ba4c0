"""The verdict on a node: its worst finding, what cannot be judged, and nodes without GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.faults.evaluate import evaluate
from exporter.faults.rule import Limits, Verdict
from exporter.faults.rules import RULES
from exporter.tools.check.exporter_page import parse
from exporter.tools.check.render import short
from tests.unit.check.nodes import FIRES, LIMITS, NOW, WELL, facts, fault, series, xid


def test_well_node_is_ok_whatever_is_normal() -> None:
    """A power cap, an idle PCIe generation, a killed job's XID 45 and corrected errors are nothing."""
    report = evaluate(facts(), Limits())

    assert (report.verdict, report.findings, report.gpus, report.models) == (Verdict.OK, (), 1, ("NVIDIA H200",))


def test_worst_comes_first() -> None:
    report = evaluate(facts(FIRES["hw_thermal"], FIRES["row_remap_failed"], FIRES["reading"]), Limits())

    assert [finding.rule for finding in report.findings] == ["row_remap_failed", "reading", "hw_thermal"]


def test_gpu_that_is_gone_is_not_mistaken_for_the_one_that_has_its_index_now() -> None:
    gone = 'gpu="0",uuid="GPU-gone"'
    changes = (
        f"gpu_up{{{gone}}} 0",
        f'gpu_fault_timestamp_seconds{{{gone},fault="lost",evidence="no answer",action="restart"}} {NOW - 7200}',
        f'gpu_fault_timestamp_seconds{{{gone},fault="xid",evidence="XID 119",action="reset"}} {NOW - 60}',
        f'gpu_nvlink_volatile_errors{{{gone},type="replay"}} 900',
        series("gpu_nvlink_volatile_errors", 900, type="replay"),
    )

    found = evaluate(facts(*changes), Limits()).findings

    assert {finding.uuid for finding in found} == {"GPU-gone"}
    assert "lost (no answer; it was GPU-gone), 2 h ago, not repaired since" in [finding.reason for finding in found]
    assert "nvlink_errors" not in [finding.rule for finding in found]


def test_gpu_that_is_down_is_told_beside_one_that_is_lost_and_had_its_index() -> None:
    lost = f'{{gpu="0",uuid="GPU-gone",fault="lost",evidence="no answer",action="restart"}} {NOW - 7200}'

    found = evaluate(facts(series("gpu_up", 0), f"gpu_fault_timestamp_seconds{lost}"), Limits()).findings

    assert {finding.rule: finding.uuid for finding in found} == {"lost": "GPU-gone", "gpu_down": "GPU-a"}


@pytest.mark.parametrize(("evidence", "words"), [("no answer", "lost"), ("XID 79", "lost (XID 79)")])
def test_lost_gpu_is_short_in_words_and_needs_no_uuid(evidence: str, words: str) -> None:
    labels = f'gpu="0",fault="lost",evidence="{evidence}",action="restart"'

    (finding,) = evaluate(facts(f"gpu_fault_timestamp_seconds{{{labels}}} {NOW - 60}"), Limits()).findings

    assert (finding.uuid, finding.short) == ("", words)


def test_two_findings_of_the_same_links_are_one_with_the_action_of_the_first() -> None:
    first, second = (evaluate(facts(FIRES[name]), Limits()).findings[0] for name in ("nvlink_down", "nvlink_errors"))
    (both,) = evaluate(facts(FIRES["nvlink_down"], FIRES["nvlink_errors"]), Limits()).findings

    assert both == replace(first, reason=f"{first.reason}; {second.reason}")


NO_DRIVER = 'gpu_exporter_driver_error{error="LIBRARY_NOT_FOUND"} 1'
BARE = f'gpu_exporter_build_info{{version="1",python="3"}} 1\n{NO_DRIVER}\n'


def test_node_without_gpus_is_ok_unless_some_are_expected() -> None:
    bare = parse(BARE + 'gpu_devices{source="pci"} 0\n', NOW)

    assert evaluate(bare, Limits()).verdict is Verdict.OK
    assert evaluate(bare, Limits()).remark == "no NVIDIA GPU in this node"
    assert evaluate(bare, Limits(gpus=4)).verdict is Verdict.FAILED


def test_without_a_driver_on_a_node_with_gpus_is_failed() -> None:
    assert evaluate(parse(BARE + 'gpu_devices{source="pci"} 8\n', NOW), Limits()).verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("text", "remark"),
    [
        ("up 1\n", "not the metrics of gpu-exporter"),
        (WELL.replace(f"{NOW - 1}", f"{NOW - 90}"), "the exporter's last sample is 90 s old"),
        (
            BARE.replace("LIBRARY_NOT_FOUND", "NO_PERMISSION") + 'gpu_devices{source="pci"} 8\n',
            "the driver may not be asked (NO_PERMISSION): run this as a user who may open /dev/nvidiactl",
        ),
        (BARE, "the driver is not available (LIBRARY_NOT_FOUND), and the PCI bus cannot be read"),
    ],
)
def test_what_cannot_be_judged_is_unknown(text: str, remark: str) -> None:
    report = evaluate(parse(text, NOW), Limits())

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
    report = evaluate(facts(*found), Limits())

    assert [finding.reason for finding in report.findings] == [reason]
    assert report.verdict is Verdict.FAILED


def test_gpu_that_fell_off_the_bus_is_one_finding_with_its_xid() -> None:
    report = evaluate(facts(fault("lost", "XID 79", "restart"), xid(79), series("gpu_up", 0)), Limits())

    assert [finding.rule for finding in report.findings] == ["lost"]
    assert short(report, Verdict.FAILED) == "GPU0 lost (XID 79)"
    assert not report.findings[0].hands


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_short_reason_fits_where_slurm_shows_twenty_characters(rule: object) -> None:
    name = rule.name  # type: ignore[attr-defined]
    report = evaluate(facts(FIRES[name]), LIMITS)

    assert 0 < len(short(report, report.verdict)) <= 24
    assert "{" not in short(report, report.verdict)
