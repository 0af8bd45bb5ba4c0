"""Advice, prices, queries and formats, without a Prometheus."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import promql_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.ledger.palette import style_of
from exporter.tools.report import advice, formats, layout, promql, subject, terminal, words
from exporter.tools.report.definitions import utilization
from exporter.tools.report.document import Bar, Bars, Document, Facts, Heading, Paragraph, Steps, Table
from exporter.tools.report.model import DeviceUse, JobReport, Name, NodeUse, Progress, Span
from exporter.tools.report.terminal import Colors

GIB = 1 << 30


def device(gpu: int, hours: dict[str, float], peak: float = 70.0) -> DeviceUse:
    return DeviceUse("n1", str(gpu), f"GPU-{gpu}", "NVIDIA H200", 1.0, hours, peak * GIB, 141.0 * GIB, 300.0, 0.4)


def test_lost_states_come_before_those_that_could_be_better() -> None:
    found = advice.of_states(
        {"computing": 5, "low_sm_activity": 4, "wait_cpu": 1, "allocated_idle": 2, "wait_peer": 0.01}
    )

    assert [each.state for each in found] == ["allocated_idle", "wait_cpu", "low_sm_activity"]


def test_gpus_that_never_ran_anything_are_told_first() -> None:
    devices = [device(0, {"computing": 2.0}), device(1, {"allocated_idle": 2.0})]
    found = advice.of_job({"computing": 2.0, "allocated_idle": 2.0}, devices)

    assert [each.state for each in found] == ["unused", "allocated_idle"]
    assert found[0].hours == 2.0
    assert found[0].text.startswith("1 of 2 GPUs never ran a kernel: ask for 1")


def test_advice_about_batches_says_whether_memory_is_left_for_them() -> None:
    hours = {"low_sm_activity": 2.0}
    roomy, full = (advice.of_job(hours, [device(0, hours, peak=peak)])[0].text for peak in (70.0, 137.0))

    assert roomy.startswith("Enlarge the batch where GPU memory has room")
    assert "(At its peak 50 % of a GPU's memory was used," in roomy
    assert full.startswith("GPU memory is full, so the batch cannot grow")
    assert "97 %" in full


def test_what_may_be_lost_comes_after_what_is() -> None:
    found = advice.of_states(
        {"wait_requests": 9.0, "allocated_unused": 1.0, "wait_collective": 2.0, "low_sm_activity": 9.0}
    )

    assert [each.state for each in found] == ["wait_collective", "allocated_unused", "wait_requests", "low_sm_activity"]


def test_small_use_of_large_gpus_is_told() -> None:
    hours = {"computing": 0.1, "wait_other": 0.9}

    assert advice.of_job(hours, [device(0, hours, peak=9.0)])[-1].state == "too_large"
    assert "too_large" not in [each.state for each in advice.of_job(hours, [device(0, hours, peak=90.0)])]


def test_unobserved_time_is_neither_use_nor_loss() -> None:
    assert utilization({"computing": 1.0, "unobserved": 9.0}) == 1.0
    assert utilization({"unobserved": 9.0}) is None


@given(st.text())
def test_any_name_makes_a_query_that_parses(name: str) -> None:
    selector = promql.matchers(user=name.replace("\x00", ""))

    assert promql_parser.parse(promql.info(selector, "60s"))


def test_every_query_parses() -> None:
    selector, scope = 'slurm_job="1"', promql.EVERYTHING
    queries = [
        subject.allocated_to(selector),
        subject.began_before(selector),
        promql.nodes(selector, "60s"),
        promql.max_concurrent_gpus(selector, "86400s"),
        promql.of_nodes("gpu_workload_gpu_seconds_total", selector, "60s", "state"),
        promql.on_devices(
            promql.increase_since_first_sample("gpu_state_seconds_total", "60s"), selector, "60s", "state"
        ),
        promql.shares(selector, "60s"),
        promql.mig_fractions(selector, "60s"),
        promql.models(selector, "60s"),
        promql.causes(promql.TEAM, scope, "60s"),
        promql.covered_seconds(scope, "60s"),
    ]
    for level in (*promql.LEVELS, "workload"):
        queries += [
            query(level, scope, "60s") for query in (promql.allocated_gpu_hours, promql.wasted, promql.utilization)
        ]
        queries += [promql.wasted_on(level, scope, "60s")]
        prices = [query(level, scope, "60s") for query in (promql.price_of_waste, promql.price_of_possible_waste)]
        assert all(scope in query and "None" not in query for query in prices)
        queries += prices

    assert all(promql_parser.parse(query) for query in queries)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min"), (8040, "2 h 14 min"), (100_000, "1 d 3 h"), (3600, "1 h")]
)
def test_spans_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert words.span(seconds) == text


REPORT = JobReport(
    name=Name("Slurm job 7", job_name="a|b <script>*x*", user="ada"),
    span=Span(0.0, None, 3600.0, truncated=True, time_limit=7200.0),
    hours={"computing": 1.0, "wait_cpu": 1.0},
    nodes=(
        NodeUse("n1", 1, {"computing": 1.0}, energy_joules=3.6e6),
        NodeUse("n2", 1, {"wait_cpu": 1.0}, resident_bytes=GIB, cpu_seconds=3600.0, cpu_limit_cores=4),
    ),
    devices=(device(0, {"computing": 1.0}), device(1, {"wait_cpu": 1.0})),
    progress=Progress(steps=100.0, ratio=0.25, first_kernel_seconds=12.0),
    cost=6.0,
)


def test_facts_of_a_running_job() -> None:
    text = terminal.render(layout.job_document(REPORT, "EUR"), Colors(colours=False))

    for said in (
        "still running",
        "It began before the range",
        "Time limit    2 h\n",
        "6.00 EUR, 3.00 EUR of it wasted",
        "1.0 kWh",
        "Progress      25 %",
        "12 s after the start",
        "12 s after the start",
        "1.0 of 4 cores busy",
        "71.0 GiB to spare",
    ):
        assert said in text


def test_what_began_before_the_range_has_no_part_of_its_limit_and_no_whole() -> None:
    progress = replace(REPORT.progress, remaining_seconds=3600.0)
    of_part = replace(REPORT, progress=progress)
    of_all = replace(of_part, span=replace(REPORT.span, truncated=False))
    part, whole = (terminal.render(layout.job_document(each, "$"), Colors(colours=False)) for each in (of_part, of_all))

    assert ("To the end" in part, "In all" in part, "of it used" in part) == (True, False, False)
    assert ("To the end" in whole, "In all" in whole, "2 h, 50 % of it used" in whole) == (True, True, True)


def test_gpus_of_a_job_that_no_scrape_saw_are_not_none() -> None:
    """Its counters say that it held some: it was "0 GPUs on 2 nodes", with GPU hours."""
    unseen = replace(REPORT, nodes=tuple(replace(node, gpus=0.0) for node in REPORT.nodes), devices=())
    text = terminal.render(layout.job_document(unseen, "$"), Colors(colours=False))

    assert "GPUs (gone before a scrape saw how many) on 2 nodes for 1 h" in text
    assert next(line.split() for line in text.splitlines() if line.startswith("  Node"))[1] == "Allocated"  # no GPUs
    assert formats.short(unseen).startswith("GPU 50 % used; GPUs 1 h; ")
    assert json.loads(formats.to_json(unseen, {}))["gpus"] is None


@pytest.mark.parametrize("width", [80, 100])
def test_text_fits_a_terminal_and_columns_without_values_are_left_out(width: int) -> None:
    devices = tuple(replace(each, sm_active=None) for each in REPORT.devices)
    text = terminal.render(
        layout.job_document(replace(REPORT, devices=devices), "$"), Colors(colours=False, width=width)
    )

    assert max(map(len, text.splitlines())) <= width
    assert "SM active" not in text


def test_rows_of_gpus_that_were_held_in_turn_are_said_to_be_of_their_own_times() -> None:
    stayed, moved = (
        terminal.render(layout.job_document(replace(REPORT, moved=each), "$"), Colors(colours=False))
        for each in (False, True)
    )

    assert ("in turn" in stayed, "in turn" in moved) == (False, True)


def test_memory_is_told_for_each_kind_of_gpu() -> None:
    """The fullest GPU of one kind says nothing of the others: once it was 40 of 45 GiB above rows with 115."""
    small, large = (
        replace(device(index, {"computing": 1.0}), memory_peak_bytes=peak * GIB, memory_total_bytes=size * GIB)
        for index, (peak, size) in enumerate(((40.0, 45.0), (115.0, 141.0)))
    )

    text = terminal.render(layout.job_document(replace(REPORT, devices=(small, large)), "$"), Colors(colours=False))

    assert "at most 115.0 GiB of 141.0 GiB: 26.0 GiB to spare" in text
    assert "at most 40.0 GiB of 45.0 GiB: 5.0 GiB to spare" in text


def test_a_state_has_its_colour_in_the_report_too() -> None:
    text = formats.render_html(layout.job_document(REPORT, "$"))

    assert f"background:{style_of('computing').colour}" in text
    assert f"background:{style_of('wait_cpu').colour}" in text


def test_what_nobody_observed_is_not_called_unused() -> None:
    """A MIG instance of an A100 tells nothing of its use: 0 % in red would accuse its owner."""
    unseen = replace(REPORT, hours={"unobserved": 2.0}, nodes=(), devices=())

    text = terminal.render(layout.job_document(unseen, "$"), Colors(colours=False))

    assert "2.0 h, nothing of it was observed" in text
    assert re.search(r"Utilization +-\n", text)
    assert "wasted" not in text


def test_names_are_text_in_every_format() -> None:
    document = layout.job_document(REPORT, "$")

    assert r"a\|b \<script\>\*x\*" in formats.render_markdown(document)
    assert "<script>" not in formats.render_html(document)
    assert formats.short(REPORT).startswith("GPU 50 % used; 2 GPUs 1 h; wasted 1.0 h, most on Waits for CPU")


class Balanced(HTMLParser):
    """Notes every tag it meets."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        del attrs
        self.tags.add(tag)


def test_no_name_becomes_markdown() -> None:
    """GitHub strikes out what is between tildes, and every reader takes `&lt;` for a `<`."""
    assert formats.render_markdown(Document("~~a~~ &lt; *b*", ())) == "# \\~\\~a\\~\\~ \\&lt; \\*b\\*\n"


MARKUP = st.text(alphabet="<>&\"'/ abi=!-", min_size=3) | st.sampled_from(["<img src=x>", "</td><script>", "&lt;"])


@given(MARKUP, MARKUP)
def test_no_text_becomes_markup(one: str, two: str) -> None:
    blocks = (
        Heading(one), Facts([(one, two)]), Bars([Bar(one, two, 0.5, "good", "#000000")]), Table((">" + one,), [(two,)]),
        Steps([(one, two)]), Paragraph(two),
    )  # fmt: skip
    parser = Balanced()
    parser.feed(formats.render_html(Document(one, blocks)))
    known = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "table", "tr", "th", "td", "div", "ol", "li"}

    assert parser.tags <= known | {"strong", "br", "p"}
    assert terminal.render(Document("t", blocks), Colors(colours=False))
    assert formats.render_markdown(Document(one, blocks))


def test_what_was_used_stands_beside_what_was_held() -> None:
    text = terminal.render(layout.job_document(replace(REPORT, used_hours=1.5), "$"), Colors(colours=False))

    assert "1.5 h: the time its kernels ran" in text
    assert '"gpu_hours_used": 1.5' in formats.to_json(replace(REPORT, used_hours=1.5), {})


def test_memory_that_is_nearly_full_is_told_of_gpu_and_host() -> None:
    full = device(0, {"computing": 1.0}, peak=139.0)
    node = NodeUse("n1", 1, {"computing": 1.0}, resident_bytes=99 * GIB, memory_limit_bytes=100 * GIB)
    text = terminal.render(
        layout.job_document(replace(REPORT, devices=(full,), nodes=(node,)), "$"), Colors(colours=False)
    )

    assert "to spare, close to out of memory" in text
    assert "of 100.0 GiB on a node, close to out of memory" in text
    assert "close to out" not in terminal.render(layout.job_document(REPORT, "$"), Colors(colours=False))
