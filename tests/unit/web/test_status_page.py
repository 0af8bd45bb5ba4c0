"""The status page, word for word, and its numbers where a step of the scale is and beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.attribution.families import ProcessRow
from exporter.attribution.owner import Owner, SourceHealth
from exporter.core.clock import UnixTime
from exporter.core.units import Bytes, Fraction
from exporter.faults.evaluate import Report
from exporter.faults.rule import Finding, Verdict, merge_findings
from exporter.sampling.snapshot import CollectorStatus, GpuStatus, NodeStatus, Snapshot
from exporter.web import status as status_page
from exporter.web.history import GpuHistory
from exporter.web.status import STYLE, PageLinks, bar, duration, legend, line, ordered, page, percent, period
from tests.golden import compare

GOLDEN = Path(__file__).parent / "golden"
NOW = UnixTime(1_700_000_000.0)
GIB = 1 << 30
ADA = Owner("slurm:4711", "slurm", slurm_job="4711", user="ada", account="physics")


def gpus() -> tuple[GpuStatus, ...]:
    return (
        GpuStatus(
            index=0,
            uuid="GPU-a",
            model="NVIDIA H200 <x>",
            up=True,
            age=0.2,
            busy_ratio=0.954,
            memory_used_bytes=120.25 * GIB,
            memory_total_bytes=141 * GIB,
            power_watts=612.6,
            temperature_celsius=61.4,
            unattributed_bytes=2.5 * GIB,
            owners=((ADA, Fraction(0.5)), (Owner("team-a/<web>", "pod"), Fraction(1.0))),
            states={"computing": 3000.0, "wait_cpu": 500.0, "free": 100.0, "allocated_idle": 0.0},
        ),
        GpuStatus(index=1, uuid="GPU-b", model="NVIDIA H200", up=False, age=float("inf")),
        GpuStatus(index=2, uuid="GPU-c", model="NVIDIA H200", up=False, age=40.4, hung_seconds=12.3, busy_ratio=1.0),
        GpuStatus(index=3, uuid="GPU-d", model="NVIDIA H200", up=False, age=40.4, hung_seconds=1.0),
    )


def history() -> GpuHistory:
    kept = GpuHistory()
    for seconds in range(-4000, 1, 10):
        first = gpus()[0]
        read = GpuStatus(
            index=0,
            uuid="GPU-a",
            model="",
            up=True,
            age=0.0,
            busy_ratio=None if -300 < seconds < -200 else 0.5 + seconds / 10_000,
            power_watts=400.0 + seconds / 100,
            states={state: spent * (4000 + seconds) / 4000 for state, spent in first.states.items()},
        )
        kept.add(Snapshot(NodeStatus(time=UnixTime(NOW + seconds), gpus=(read,))))
    return kept


def rich() -> str:
    status = NodeStatus(
        time=NOW,
        cycle_seconds=0.0123,
        cycles=7,
        simulated=True,
        driver="580.95.05",
        cuda="13.0",
        driver_error="<hangs>",
        gpus=gpus(),
        collectors=(
            CollectorStatus("power", success=True, seconds=0.1),
            CollectorStatus("e<cc", success=False, seconds=0),
        ),
        sources=(SourceHealth("slurm", success=True, age=0.0), SourceHealth("kubelet", success=False, age=75.4)),
    )
    processes = (
        ProcessRow("0", "GPU-a", "17", "python <train>", ADA, Bytes(3 * GIB // 2), {"sm": 0.42}, None, None, None),
        ProcessRow("0", "GPU-a", "18", "", Owner(), None, {}, None, None, None),
    )
    findings = (
        Finding(
            "row_remap_failed",
            Verdict.FAILED,
            "0",
            "GPU-a",
            "a row <could not> be remapped",
            "Replace it.",
            runbook="gpurecoveryactionneeded",
        ),
        Finding("power_capped", Verdict.DEGRADED, "0", "GPU-a", "it is capped", "Cool it."),
        Finding("no_such_rule", Verdict.DEGRADED, "", "", "the node is odd", "Look."),
    )
    return page(
        PageLinks("gpu<07>", '/metrics?a="b"', "https://runbooks.example.org/{name}"),
        Snapshot(status, tuple, processes),
        Report(Verdict.FAILED, findings, 1, ("H200",)),
        {"GPU-a": 700.0},
        history(),
    )


def empty() -> str:
    return page(
        PageLinks("n", "/metrics", ""), Snapshot(NodeStatus()), Report(Verdict.UNKNOWN, (), 0, ()), {}, GpuHistory()
    )


@pytest.mark.parametrize("name", ["rich", "empty"])
def test_page_is_what_it_was(name: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setattr(status_page, "__version__", "9.9")
    monkeypatch.setattr(status_page, "unix_time", lambda: UnixTime(NOW + 3.0))

    compare(GOLDEN / f"{name}.html", {"rich": rich, "empty": empty}[name]().replace(STYLE, "STYLE"), request)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (percent(None), "&ndash;"),
        (percent(0.005), "0 %"),
        (duration(0.4), "0 s"),
        (duration(59.0), "59 s"),
        (duration(60.0), "1 min"),
        (duration(90.0), "1.5 min"),
        (duration(600.0), "10 min"),
        (duration(3599.0), "60 min"),
        (duration(3600.0), "1 h"),
        (duration(86400.0), "1 d"),
        (duration(864_000.0), "10 d"),
        (period(3420.0), "last hour"),
        (period(3419.0), "last 57 min"),
        (bar(60.0, {"computing": 0.0}), ""),
        (legend({"computing": 0.0}), ""),
        (line("x", [(NOW, 1.0), (NOW, None)], 1.0, NOW), ""),
    ],
)
def test_words(said: str, expected: str) -> None:
    assert said == expected


def test_states_are_in_the_order_of_the_palette_and_unknown_ones_last() -> None:
    assert ordered({"free": 1.0, "new_state": 1.0, "computing": 1.0, "wait_cpu": 0.0}) == [
        "computing",
        "free",
        "new_state",
    ]


def test_line_stays_in_its_frame() -> None:
    text = line("a<b", [(UnixTime(NOW - 3601), 1.0), (UnixTime(NOW - 3600), 2.0), (UnixTime(NOW), -1.0)], 1.0, NOW)

    assert '<path d="M0.0 2.0L240.0 42.0"/>' in text
    assert text.count("a&lt;b") == 2


def test_finding_of_every_gpu_is_said_once() -> None:
    lost = [
        Finding("lost", Verdict.FAILED, str(gpu), f"GPU-{gpu}", "lost (XID 79)", "Drain the node and restart it.")
        for gpu in range(8)
    ]

    shown = [finding.summary for finding in merge_findings([lost[0], replace(lost[1], reason="slow"), *lost[2:]])]

    assert shown == ["GPUs 0, 2, 3, 4, 5, 6, 7: lost (XID 79)", "GPU 1: slow"]
