"""The status page: the verdict of the check on top, its findings on the cards, and an hour that says so."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from exporter.config.load import load
from exporter.core.clock import MonotonicTime
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.exposition.page import Renderer
from exporter.faults.evaluate import Report, evaluate
from exporter.faults.rule import Finding, Limits, Series, Verdict, from_blocks
from exporter.faults.rules import RULES, runbooks_of
from exporter.ledger.palette import STYLES
from exporter.sampling.families import families
from exporter.sampling.snapshot import GpuStatus, NodeStatus, Snapshot
from exporter.tools.check.exporter_page import parse
from exporter.web.history import GpuHistory
from exporter.web.status import PageLinks, duration, line, page, period, render_status_page

ROOT = Path(__file__).resolve().parents[3]
SITE = PageLinks("gpu07", "/metrics", "https://runbooks.example.org/{name}")
NOW = 10_000.0


def gpu(index: int = 0, **known: object) -> GpuStatus:
    return GpuStatus(index=index, uuid=f"GPU-{index}", model="H200", up=True, age=0.0, **known)  # type: ignore[arg-type]


def drawn(report: Report, *gpus: GpuStatus, history: GpuHistory | None = None) -> str:
    status = NodeStatus(time=NOW, cycles=1, driver_error="", gpus=gpus)
    return page(SITE, Snapshot(status), report, {"GPU-0": 700.0}, history or GpuHistory())


def finding(gpu_index: str = "0") -> Finding:
    texts = ("a row <could not> be remapped", "Replace it.")
    page = "gpurecoveryactionneeded"
    return Finding("row_remap_failed", Verdict.FAILED, gpu_index, "GPU-0", *texts, runbook=page)


def test_a_broken_gpu_is_not_green() -> None:
    text = drawn(Report(Verdict.FAILED, (finding(),), 1, ("H200",)), gpu())
    assert '<b style="color:var(--bad)">failed</b>' in text
    assert text.count("a row &lt;could not&gt; be remapped") == 2  # on top, and on its card
    assert text.count("Replace it.") == 2
    assert "https://runbooks.example.org/gpurecoveryactionneeded" in text
    assert "border-color:var(--bad)" in text


@pytest.mark.parametrize("runbooks", ["https://wiki.example.org/{name}?of={team}", "https://wiki.example.org/{name}#{"])
def test_a_runbook_link_may_have_other_braces(runbooks: str) -> None:
    text = page(
        PageLinks("gpu07", "/metrics", runbooks),
        Snapshot(NodeStatus(time=NOW, cycles=1)),
        Report(Verdict.FAILED, (finding(),), 1, ("H200",)),
        {},
        GpuHistory(),
    )

    assert runbooks.replace("{name}", "gpurecoveryactionneeded") in text


@pytest.mark.parametrize(("gib", "shown"), [(1.0, False), (1.1, True)])
def test_memory_that_no_process_accounts_for_is_told_from_a_gibibyte_on(gib: float, *, shown: bool) -> None:
    memory = gpu(memory_used_bytes=8.0 * 2**30, memory_total_bytes=141.0 * 2**30, unattributed_bytes=gib * 2**30)

    text = drawn(Report(Verdict.OK, (), 1, ()), memory)

    assert "8.0 / 141 GiB" in text
    assert ("(1.1 unattributed)" in text) is shown
    assert ("unattributed" in text) is shown


def test_node_that_can_be_relied_on_has_its_verdict_and_no_more() -> None:
    assert ": nothing is wrong that the check knows of.</section>" in drawn(Report(Verdict.OK, (), 1, ()), gpu())


def test_the_node_has_the_name_it_has_everywhere() -> None:
    assert "<h1>GPUs of gpu07</h1>" in drawn(Report(Verdict.OK, (), 1, ()), gpu())


def test_a_finding_of_one_gpu_is_not_on_the_card_of_another() -> None:
    text = drawn(Report(Verdict.FAILED, (finding("1"),), 1, ()), gpu(0))
    assert text.count("Replace it.") == 1


def test_power_is_drawn_up_to_its_limit() -> None:
    history = GpuHistory()
    for time in range(0, 100, 20):
        history.add(Snapshot(NodeStatus(time=NOW - 100 + time, gpus=(gpu(power_watts=100.0),))))
    text = drawn(Report(Verdict.OK, (), 1, ()), gpu(), history=history)
    assert "power, last hour, 0 to 700 W (its limit)" in text


def test_points_are_means_by_what_the_gpu_has_counted_since_the_point_before() -> None:
    history = GpuHistory()
    counted = ((0, 100.0, 5000.0), (10, 101.0, 5100.0), (20, 105.0, 11000.0), (40, 1.0, 12000.0), (60, 23.0, 26000.0))
    for second, busy, joules in counted:
        read = gpu(busy_ratio=1.0, busy_seconds=busy, power_watts=700.0, joules=joules)
        history.add(Snapshot(NodeStatus(time=NOW + second, gpus=(read,)), monotonic=MonotonicTime(second)))

    assert [(each.busy_ratio, each.power_watts) for each in history.points("GPU-0")] == [
        (1.0, 700.0),  # nothing is known of before
        (0.25, 300.0),
        (1.0, 50.0),  # the count of busy seconds began anew
        (1.0, 700.0),  # what the driver counts late may be more than there was time
    ]


def test_gpu_that_counts_nothing_is_drawn_as_it_was_at_that_moment() -> None:
    history = GpuHistory()
    for second in (0, 20):
        read = gpu(busy_ratio=second / 100, power_watts=None)
        history.add(Snapshot(NodeStatus(time=NOW + second, gpus=(read,)), monotonic=MonotonicTime(second)))

    assert [(each.busy_ratio, each.power_watts) for each in history.points("GPU-0")] == [(0.0, None), (0.2, None)]


def test_a_silent_gpu_is_not_said_to_be_busy() -> None:
    lost = GpuStatus(index=0, uuid="GPU-0", model="H200", up=False, age=40.0, busy_ratio=0.0)
    text = drawn(Report(Verdict.FAILED, (), 0, ()), lost)
    assert "silent for 40 s" in text
    assert "<dt>busy</dt><dd>&ndash;</dd>" in text


def test_the_bar_is_of_the_last_hour_and_says_so() -> None:
    history = GpuHistory()
    for minute in range(100):
        states = {"computing": 60.0 * minute if minute < 50 else 3000.0, "free": max(0.0, 60.0 * (minute - 50))}
        history.add(Snapshot(NodeStatus(time=60.0 * minute, gpus=(gpu(states=states),))))
    seconds, states = history.states(gpu(states={"computing": 3000.0, "free": 2940.0}), 60.0 * 99)
    assert seconds == pytest.approx(3600, abs=120)
    assert states["free"] == 2940.0
    assert states["computing"] == pytest.approx(660, abs=120)
    assert period(seconds) == "last hour"
    assert period(600.0) == "last 10 min"


def test_state_that_began_within_the_hour_counts_from_its_beginning() -> None:
    history = GpuHistory()
    history.add(Snapshot(NodeStatus(time=NOW - 600, gpus=(gpu(states={"computing": 100.0}),))))

    assert history.states(gpu(states={"computing": 400.0, "wait_cpu": 5.0}), NOW) == (
        600.0,
        {"computing": 300.0, "wait_cpu": 5.0},
    )


def test_a_plot_has_a_gap_where_nothing_was_read() -> None:
    text = line("computing", [(NOW - 60, 0.5), (NOW - 40, None), (NOW - 20, 0.5), (NOW, 1.0)], 1.0, NOW)
    assert text.count("M") == 2


def test_every_rule_leads_to_a_runbook_that_exists() -> None:
    named = {page for rule in RULES for page in runbooks_of(rule.name)}
    assert {page for page in named if not (ROOT / f"docs/runbooks/{page}.md").is_file()} == set()


def test_colours_and_words_are_those_of_the_palette() -> None:
    history = GpuHistory()
    history.add(Snapshot(NodeStatus(time=NOW - 600, gpus=(gpu(states={"wait_storage": 1.0}),))))
    text = drawn(Report(Verdict.OK, (), 1, ()), gpu(states={"wait_storage": 500.0}), history=history)
    assert STYLES["wait_storage"].title in text
    assert STYLES["wait_storage"].colour in text
    assert "where its time went, last 10 min" in text


def plain(series: Mapping[str, Sequence[Series]]) -> dict[str, list[tuple[list[tuple[str, str]], float]]]:
    return {n: sorted((sorted(s.labels.items()), s.value) for s in found) for n, found in series.items() if found}


def test_facts_of_a_snapshot_are_those_of_its_text() -> None:
    """The status page judges what is served, without writing and reading it."""
    done = threading.Event()
    settings = load(DaemonConfig, ("--simulate", "2xH200:training,row-remap-failed"), {})
    exporter = assembly.assemble(settings, lambda snapshot: done.set() if snapshot.status.cycles > 1 else None)
    exporter.start()
    assert done.wait(30)
    exporter.stop()
    snapshot = exporter.snapshot
    facts, page = from_blocks(snapshot.blocks, NOW), Renderer().render(snapshot.blocks, "")[1].decode()
    shown = {family.name: family.shown for family in families()}
    on_page = {n: tuple(s for s in found if shown[n].has(s.value)) for n, found in facts.series.items()}
    read = parse(page, NOW)
    assert plain(on_page) == plain({n: s for n, s in read.series.items() if n.startswith("gpu_")})
    assert evaluate(facts, Limits()).verdict is evaluate(read, Limits()).verdict
    text = render_status_page("gpu07", settings.web, snapshot, GpuHistory())
    assert "have the GPU replaced (RMA)" in text
    assert "left on it" not in text  # a job that runs is no fault


@pytest.mark.parametrize(
    ("seconds", "text"), [(42.0, "42 s"), (119.0, "2 min"), (350.0, "5.8 min"), (2400.0, "40 min"), (5400.0, "1.5 h")]
)
def test_times_are_as_one_says_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_gpu_that_nobody_could_ask_is_not_said_to_be_silent() -> None:
    unasked = GpuStatus(index=0, uuid="GPU-0", model="H200", up=None, age=40.0)
    text = drawn(Report(Verdict.OK, (), 0, ()), unasked)
    assert "not asked: a thread of the exporter does not run" in text
    assert "silent" not in text
