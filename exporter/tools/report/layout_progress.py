"""What a program got done, how long to its end, and how its runs compare, laid out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from exporter.tools.report import words
from exporter.tools.report.document import Block, Heading, Table
from exporter.tools.report.model import JobReport
from exporter.tools.report.solution import Progress, Run, Runs, Throughput, middle

_MLPERF = "from its start to its target quality, the time to train as MLPerf Training defines it"


def model_flops(progress: Progress) -> str:
    """To stand behind the utilization; empty where nothing is known."""
    if progress.model_flops_utilization is not None:
        return f", MFU {words.percent(progress.model_flops_utilization)}"
    if progress.model_flops_utilization_bound is not None:
        return f", MFU at most {words.percent(progress.model_flops_utilization_bound)}"
    return ""


def facts(report: JobReport, currency: str) -> Iterable[tuple[str, str]]:
    progress = report.progress
    if progress.first_kernel_seconds is not None:
        yield "First kernel", f"{words.span(progress.first_kernel_seconds)} after the start"
    for name, each in report.throughput.items():
        yield name.capitalize(), ", ".join(_rates(each))
    end = report.to_end
    if progress.ratio is not None:
        yield "Progress", words.percent(progress.ratio)
    if end:
        pace = "as the program says" if progress.remaining_seconds is not None else "at this pace"
        yield (
            "To the end",
            ", ".join((f"{words.span(end.seconds)} to go {pace}", *_spent(end.joules, end.cost, currency))),
        )
    if end and not report.span.truncated:  # of a part of it nobody knows the whole
        joules, cost = _sum(report.energy_joules, end.joules), _sum(report.cost, end.cost)
        whole = report.span.seconds + end.seconds
        yield "In all", ", ".join((f"{words.span(whole)} from start to end", *_spent(joules, cost, currency)))
    if progress.time_to_target_seconds is not None:
        yield "Time to train", f"{words.span(progress.time_to_target_seconds)} {_MLPERF}"


def _rates(each: Throughput) -> Iterable[str]:
    yield f"{each.total:,.0f}"
    for rate, of in ((each.per_second, "a second"), (each.per_gpu_hour, "per GPU hour"), (each.per_kwh, "per kWh")):
        if rate is not None:
            yield f"{words.amount(rate)} {of}"


def _spent(joules: float | None, cost: float | None, currency: str) -> Iterable[str]:
    if joules is not None:
        yield words.energy(joules)
    if cost is not None:
        yield words.money(cost, currency)


def _sum(spent: float | None, more: float | None) -> float | None:
    return None if spent is None or more is None else spent + more


def compared(runs: Runs) -> Sequence[Block]:
    owner = f" of {runs.user}" if runs.user else ""
    work = runs.work.capitalize()
    head = ("Run", "Started", ">GPUs", ">Held for", f">{work} per GPU hour", ">per kWh", ">Energy", ">Time to train")
    reached = any(run.time_to_target_seconds is not None for run in runs.runs)
    rows = [_row(name, run) for name, run in _lines(runs)]
    shown = Table(head, rows) if reached else Table(head[:-1], [row[:-1] for row in rows])
    return (Heading(f'Runs of "{runs.name}"{owner}'), shown)


def _lines(runs: Runs) -> Iterable[tuple[str, Run]]:
    yield "This one", runs.this
    yield f"Best: {runs.best.workload}", runs.best
    before, after = runs.before, runs.after
    change = "" if runs.changed_at is None else f" {words.when(runs.changed_at)}"
    named = (
        (f"Median of all {len(runs.runs)}", runs.runs),
        (f"Before{change}: median of {len(before)}" if change else f"Before this one: median of {len(before)}", before),
        (f"After{change}: median of {len(after)}", after),
    )
    for name, some in named:
        median = middle(some)
        if median:
            yield name, median


def _row(name: str, run: Run) -> Sequence[str]:
    return (
        name,
        "-" if run.start is None else words.when(run.start),
        words.count(run.gpus),
        "-" if run.seconds is None else words.span(run.seconds),
        words.amount(run.per_gpu_hour),
        "-" if run.per_kwh is None else words.amount(run.per_kwh),
        "-" if run.joules is None else words.energy(run.joules),
        "-" if run.time_to_target_seconds is None else words.span(run.time_to_target_seconds),
    )
