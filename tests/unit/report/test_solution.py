"""What a program gets done, how long to its end, and how its runs compare: numbers and words."""

from __future__ import annotations

from dataclasses import replace

import promql_parser
import pytest

from exporter.tools.report import formats, layout, progress, promql, terminal
from exporter.tools.report.model import JobReport, Name, NodeUse, Progress, Run, Runs, Span, middle, throughput, to_end
from exporter.tools.report.options import moment
from exporter.tools.report.terminal import Colors

HOUR = 3600.0
REPORT = JobReport(
    name=Name("Slurm job 7", "slurm:7", "train", "ada"),
    span=Span(0.0, None, 2 * HOUR, truncated=False),
    hours={"computing": 8.0, "allocated_idle": 8.0},
    nodes=(NodeUse("n1", 8, {"computing": 8.0, "allocated_idle": 8.0}, energy_joules=3.6e7),),
    devices=(),
    progress=Progress(steps=7200.0, tokens=1.6e9, ratio=0.25, remaining_seconds=6 * HOUR, model_flops_utilization=0.41),
    cost=48.0,
)


def run(number: int, per_gpu_hour: float, **more: float) -> Run:
    return Run(f"slurm:{number}", number * HOUR, 8.0, 16.0, per_gpu_hour, **more)


def said(report: JobReport) -> str:
    return terminal.render(layout.job_document(report, "$"), Colors(colours=False))


def test_throughput_is_told_by_time_by_gpu_hour_and_by_energy() -> None:
    text = said(REPORT)

    assert "Steps        7,200, 1 a second, 450 per GPU hour, 720 per kWh" in text
    assert "Tokens       1,600,000,000, 222,222 a second, 100,000,000 per GPU hour, 160,000,000 per kWh" in text


def test_what_is_still_needed_is_told_in_time_energy_and_money() -> None:
    text = said(REPORT)

    assert "To the end   6 h to go as the program reports, 30.0 kWh, 144.00 $" in text
    assert "In all       8 h from start to end, 40.0 kWh, 192.00 $" in text


def test_time_to_train_stands_under_its_name() -> None:
    reached = replace(REPORT, progress=replace(REPORT.progress, time_to_target_seconds=2 * HOUR))

    assert "  Time to train  2 h" in said(reached)


def test_limit_of_cores_is_that_of_all_nodes_or_none() -> None:
    node = replace(REPORT.nodes[0], cpu_seconds=2 * HOUR, cpu_limit_cores=16.0)
    other = replace(node, node="n2", cpu_limit_cores=None)

    assert "1.0 of 16 cores busy on average" in said(replace(REPORT, nodes=(node,)))
    assert "2.0 cores busy on average" in said(replace(REPORT, nodes=(node, other)))


def test_nothing_is_still_needed_by_what_has_ended_or_tells_nothing() -> None:
    ended = replace(REPORT, span=replace(REPORT.span, end=2 * HOUR))

    assert ended.to_end is None
    assert replace(REPORT, progress=Progress(steps=5.0)).to_end is None
    assert to_end(Progress(ratio=0.0), 60.0, None, None) is None
    assert to_end(Progress(ratio=1.0), 60.0, None, None) is None


def test_pace_of_a_part_of_its_time_is_no_pace() -> None:
    part = replace(REPORT, span=replace(REPORT.span, truncated=True))

    assert replace(part, progress=Progress(ratio=0.25)).to_end is None
    assert part.to_end  # the program's own word


def test_model_flops_stand_beside_utilization_and_a_bound_is_called_one() -> None:
    bound = replace(REPORT, progress=Progress(model_flops_utilization_bound=0.62))

    assert "Utilization  50 %, MFU 41 %" in said(REPORT)
    assert "Utilization  50 %, MFU bound 62 %" in said(bound)
    assert formats.short(REPORT).startswith("GPU 50 % used, MFU 41 %; ")


def test_time_to_train_is_mlperfs() -> None:
    reached = replace(REPORT, progress=Progress(time_to_target_seconds=5400.0))

    said_once = " ".join(said(reached).split())
    assert "1 h 30 min from its start to its target quality, the time to train as MLPerf Training defines" in said_once


def test_best_run_reached_its_target_first_or_got_most_out_of_a_gpu_hour() -> None:
    plainly = (run(1, 100.0), run(2, 300.0), run(3, 200.0))
    reached = (run(1, 100.0, time_to_target_seconds=50.0), run(2, 300.0, time_to_target_seconds=60.0), run(3, 200.0))

    assert Runs("train", "ada", "samples", plainly[2], plainly).best.workload == "slurm:2"
    assert Runs("train", "ada", "samples", reached[2], reached).best.workload == "slurm:1"


def test_before_is_before_this_run_where_no_change_is_named() -> None:
    some = tuple(run(number, 100.0 * number) for number in range(1, 6))
    of_this, of_change = (Runs("train", "ada", "samples", some[3], some, change) for change in (None, 2.5 * HOUR))

    assert [len(each) for each in (of_this.before, of_this.after)] == [3, 0]
    assert [len(each) for each in (of_change.before, of_change.after)] == [2, 3]
    assert "Before this one: median of 3" in said(replace(REPORT, runs=of_this))
    assert "Time to train" not in said(replace(REPORT, runs=of_this))


def test_median_is_of_the_runs_that_tell_it() -> None:
    found = middle((run(1, 100.0, joules=5.0), run(2, 300.0, joules=7.0), run(3, 200.0)))

    assert found
    assert (found.per_gpu_hour, found.joules, found.per_kwh, found.seconds) == (200.0, 6.0, None, 2 * HOUR)
    assert middle(()) is None


def test_what_is_not_known_divides_nothing() -> None:
    found = throughput(10.0, 0.0, 0.0, None)

    assert (found.per_second, found.per_gpu_hour, found.per_kwh) == (None, None, None)


def test_queries_are_promql() -> None:
    selector = promql.matchers(workload='slurm:"7"')
    queries = [query(name, selector, "60s") for name in ("steps", "tokens")
               for query in (promql.reported, promql.of_workloads)]  # fmt: skip
    queries += [
        promql.newest(selector, "60s", 5),
        progress.peak_flops(selector, "60s"),
        progress.flops_bound(selector, "60s"),
    ]
    queries += [
        promql.highest_of_workloads("gpu_workload_allocated_gpus", selector, "60s"),
        promql.last_of_workloads("x", selector, "60s"),
    ]

    assert all(promql_parser.parse(query) for query in queries)
    assert promql.reported("steps", selector, "60s").startswith("max (")
    assert promql.reported("tokens", selector, "60s").startswith("sum (")


@pytest.mark.parametrize(("text", "seconds"), [("1970-01-01T00:00:10+00:00", 10.0), ("1970-01-01T00:01Z", 60.0)])
def test_moments_are_read(text: str, seconds: float) -> None:
    assert moment(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "7d", "99999-01-01"])
def test_other_texts_are_no_moments(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a time such as 2026-11-20 or 2026-11-20T14:00$"):
        moment(text)
