"""The report on one job, with its progress and its other runs, and the digest of a period, as documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from exporter.ledger.palette import style_of
from exporter.tools.report import words
from exporter.tools.report.definitions import BUSY, LOST, Hours, allocated, lost, utilization
from exporter.tools.report.document import Bar, Bars, Block, Document, Facts, Heading, Paragraph, Steps, Table
from exporter.tools.report.model import (
    Advice,
    DeviceUse,
    Digest,
    JobReport,
    Progress,
    Row,
    Run,
    Runs,
    Throughput,
    middle,
    worst,
)

_NEARLY_OUT = 0.95
"""Fraction of the memory there is, as in its alerts."""
_SHORT_SECONDS = 60.0
"""A shorter job has no advice and no tables: they would describe its start."""
_LITTLE_BYTES = 0.05 * (1 << 30)
_MAX_DEVICES = 64
"""Rows of the GPU table; of larger jobs the worst are shown."""


def job_document(report: JobReport, currency: str) -> Document:
    blocks: list[Block] = [Facts(tuple(_report_facts(report, currency)))]
    if report.span.truncated:
        blocks.append(Paragraph("It began before the range that was looked at: the numbers are of that range alone."))
    if report.hours:
        blocks += [Heading("Where the GPU hours went"), bars(report.hours)]
    if report.span.seconds >= _SHORT_SECONDS:
        blocks += _finding_blocks(report)
    return Document(heading(report), tuple(blocks))


def _finding_blocks(report: JobReport) -> Sequence[Block]:
    blocks: list[Block] = [Heading("What to change"), steps(report.advice, known=lost(report.hours) is not None)]
    if report.runs:
        blocks += compared(report.runs)
    if len(report.nodes) > 1:
        rows = [
            (
                node.node,
                words.count(node.gpus) if node.gpus else "-",
                words.hours(allocated(node.hours)),
                words.percent(utilization(node.hours)),
                words.hours(lost(node.hours)),
                words.title(worst(node.hours)),
            )
            for node in report.nodes
        ]
        nodes = _make_table(("Node", ">GPUs", ">Allocated", ">Utilization", ">Wasted", "Wasted on"), rows)
        blocks += [Heading("Nodes"), nodes]
    if report.devices:
        blocks += [Heading("GPUs"), _device_table(report.devices)]
    if report.moved:
        blocks.append(Paragraph("They were allocated in turn: each row is of the time in which its GPU was."))
    if len(report.devices) > _MAX_DEVICES:
        blocks.append(Paragraph(f"The {_MAX_DEVICES} least used of {len(report.devices)}."))
    return blocks


def _make_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table without the columns in which no row has a value."""
    kept = [place for place, column in enumerate(zip(*rows, strict=True)) if set(column) != {"-"}]
    return Table([head[place] for place in kept], [[row[place] for place in kept] for row in rows])


def heading(report: JobReport) -> str:
    name = report.name
    called = f' "{name.job_name}"' if name.job_name else ""
    owner = f" of {name.user}" if name.user else ""
    return f"{name.title}{called}{owner}"


def bars(hours: Hours) -> Bars:
    whole = allocated(hours)
    return Bars(
        tuple(
            Bar(words.title(state), words.hours(amount), amount / whole, _state_tone(state), style_of(state).colour)
            for state, amount in sorted(hours.items(), key=lambda item: -item[1])
        )
    )


def _state_tone(state: str) -> str:
    if state == "computing":
        return "good"
    if state in LOST:
        return "bad"
    return "fair" if state in BUSY else "none"


def steps(advice: Sequence[Advice], *, known: bool) -> Block:
    """Return the steps to do. What was not observed is not praised."""
    if not advice and not known:
        return Paragraph("Unknown: no state of it was recorded.")
    if not advice:
        return Paragraph("Nothing: no state took more than 2 % of the time that could be better.")
    rows = [(f"{words.title(each.state)}, {words.hours(each.hours)}", each.text) for each in advice]
    return Steps(tuple(rows))


def _report_facts(report: JobReport, currency: str) -> Iterable[tuple[str, str]]:
    name, span = report.name, report.span
    owner = [f"account {name.account}"] if name.account else []
    owner += [f"partition {name.partition}"] if name.partition else []
    owner += [f"namespace {name.namespace}"] if name.namespace else []
    if owner:
        yield "Belongs to", ", ".join(owner)
    yield "Allocated", _allocated_text(report)
    if span.time_limit:
        used = "" if span.truncated else f", {words.percent(span.seconds / span.time_limit)} of it used"
        yield "Time limit", words.span(span.time_limit) + used
    wasted = lost(report.hours)
    part = "nothing of it was observed" if wasted is None else f"{words.hours(wasted)} of it wasted"
    yield "GPU hours", f"{words.hours(allocated(report.hours))}, {part}"
    if report.used_hours is not None:
        yield "Used", f"{words.hours(report.used_hours)}: the time its kernels ran, whatever its fraction of a GPU"
    yield "Utilization", words.percent(utilization(report.hours)) + model_flops(report.progress)
    yield from _spent_facts(report, currency)
    yield from _memory_facts(report)
    yield from facts(report, currency)


def _allocated_text(report: JobReport) -> str:
    span = report.span
    nodes = "1 node" if len(report.nodes) == 1 else f"{len(report.nodes)} nodes"
    state = f"ended {words.when(span.end)}" if span.end is not None else "still running"
    models = sorted({device.model.removeprefix("NVIDIA ") for device in report.devices if device.model})
    kind = f" ({', '.join(models)})" if models else ""
    kind = " (gone before a scrape saw how many)" if report.gpus is None else kind
    gpus = words.gpus(report.gpus)
    return f"{gpus}{kind} on {nodes} for {words.span(span.seconds)} from {words.when(span.start)}, {state}"


def _spent_facts(report: JobReport, currency: str) -> Iterable[tuple[str, str]]:
    joules = report.energy_joules
    if joules is not None:
        yield "Energy", words.energy(joules)
    if report.cost is not None:
        part = f", {words.money(report.cost_wasted, currency)} of it wasted" if report.cost_wasted else ""
        yield "Price", words.money(report.cost, currency) + part


def _memory_facts(report: JobReport) -> Iterable[tuple[str, str]]:
    peaks: dict[float, float] = {}
    for device in report.devices:
        peak, size = device.memory_peak_bytes, device.memory_total_bytes
        if peak is not None and size and peak >= _LITTLE_BYTES:
            peaks[size] = max(peak, peaks.get(size, 0.0))
    for size, peak in sorted(peaks.items(), reverse=True):
        spare = f"{words.gib(max(0.0, size - peak))} to spare"
        yield "GPU memory", f"at most {words.gib(peak)} of {words.gib(size)}: {spare}{_near_limit(peak, size)}"
    host = [
        (n.resident_bytes, n.memory_limit_bytes) for n in report.nodes if (n.resident_bytes or 0.0) >= _LITTLE_BYTES
    ]
    if host:
        resident, limit = max(host, key=lambda pair: pair[0] or 0.0)
        of = f" of {words.gib(limit)}" if limit else ""
        yield "Host memory", f"at most {words.gib(resident or 0.0)}{of} on a node{_near_limit(resident, limit)}"
    cpu = [(n.cpu_seconds, n.cpu_limit_cores) for n in report.nodes if n.cpu_seconds is not None]
    if cpu and report.span.seconds > 0:
        cores = sum(seconds or 0.0 for seconds, _ in cpu) / report.span.seconds
        limits = [limit for _, limit in cpu if limit]
        of = f" of {sum(limits):.0f}" if len(limits) == len(cpu) else ""
        yield "CPU", f"{cores:.1f}{of} cores busy on average"


def _near_limit(peak: float | None, size: float | None) -> str:
    return ", close to out of memory" if peak and size and peak > _NEARLY_OUT * size else ""


def _device_table(devices: Sequence[DeviceUse]) -> Table:
    several = len({device.node for device in devices}) > 1
    shown = sorted(devices, key=lambda d: utilization(d.hours) or 0.0)[:_MAX_DEVICES]
    order = {id(device): place for place, device in enumerate(devices)}
    rows = [_device_row(device, several=several) for device in sorted(shown, key=lambda d: order[id(d)])]
    head = ("GPU", ">Utilization", ">SM active", ">Peak memory", ">Power", ">Wasted", "Wasted on")
    return _make_table(("Node", *head) if several else head, rows)


def _device_row(device: DeviceUse, *, several: bool) -> Sequence[str]:
    peak, size = device.memory_peak_bytes, device.memory_total_bytes
    memory = f"{words.gib(peak).removesuffix(' GiB')} of {words.gib(size)}" if peak is not None and size else "-"
    part = f" ({words.percent(device.share)})" if device.share < 0.995 else ""  # noqa: PLR2004 - shown as 100 %
    profile = device.model.partition(" MIG ")[2]
    name = f"{device.gpu} {profile}" if profile else device.gpu
    row = (
        name + part,
        words.percent(utilization(device.hours)),
        words.percent(device.sm_active),
        memory,
        "-" if device.power_watts is None else f"{device.power_watts:.0f} W",
        words.hours(lost(device.hours)),
        words.title(worst(device.hours)),
    )
    return (device.node, *row) if several else row


_MLPERF = "from its start to its target quality, the time to train as MLPerf Training defines it"


def model_flops(progress: Progress) -> str:
    """Return the text behind the utilization; empty where nothing is known."""
    if progress.model_flops_utilization is not None:
        return f", MFU {words.percent(progress.model_flops_utilization)}"
    if progress.model_flops_utilization_bound is not None:
        return f", MFU bound {words.percent(progress.model_flops_utilization_bound)}"
    return ""


def facts(report: JobReport, currency: str) -> Iterable[tuple[str, str]]:
    progress = report.progress
    if progress.first_kernel_seconds is not None:
        yield "First kernel", f"{words.span(progress.first_kernel_seconds)} after the start"
    for name, each in report.throughput.items():
        yield name.capitalize(), ", ".join(_rate_texts(each))
    end = report.to_end
    if progress.ratio is not None:
        yield "Progress", words.percent(progress.ratio)
    if end:
        pace = "as the program reports" if progress.remaining_seconds is not None else "at this pace"
        yield (
            "To the end",
            ", ".join((f"{words.span(end.seconds)} to go {pace}", *_energy_and_cost(end.joules, end.cost, currency))),
        )
    if end and not report.span.truncated:  # of a part of it nobody knows the whole
        joules, cost = _sum_known(report.energy_joules, end.joules), _sum_known(report.cost, end.cost)
        whole = report.span.seconds + end.seconds
        yield "In all", ", ".join((f"{words.span(whole)} from start to end", *_energy_and_cost(joules, cost, currency)))
    if progress.time_to_target_seconds is not None:
        yield "Time to train", f"{words.span(progress.time_to_target_seconds)} {_MLPERF}"


def _rate_texts(each: Throughput) -> Iterable[str]:
    yield f"{each.total:,.0f}"
    for rate, of in ((each.per_second, "a second"), (each.per_gpu_hour, "per GPU hour"), (each.per_kwh, "per kWh")):
        if rate is not None:
            yield f"{words.amount(rate)} {of}"


def _energy_and_cost(joules: float | None, cost: float | None, currency: str) -> Iterable[str]:
    if joules is not None:
        yield words.energy(joules)
    if cost is not None:
        yield words.money(cost, currency)


def _sum_known(spent: float | None, more: float | None) -> float | None:
    return None if spent is None or more is None else spent + more


def compared(runs: Runs) -> Sequence[Block]:
    owner = f" of {runs.user}" if runs.user else ""
    work = runs.work.capitalize()
    head = (
        "Run",
        "Started",
        ">GPUs",
        ">Allocated for",
        f">{work} per GPU hour",
        ">per kWh",
        ">Energy",
        ">Time to train",
    )
    rows = [
        (
            name,
            "-" if run.start is None else words.when(run.start),
            words.count(run.gpus),
            "-" if run.seconds is None else words.span(run.seconds),
            words.amount(run.per_gpu_hour),
            "-" if run.per_kwh is None else words.amount(run.per_kwh),
            "-" if run.joules is None else words.energy(run.joules),
            "-" if run.time_to_target_seconds is None else words.span(run.time_to_target_seconds),
        )
        for name, run in _run_lines(runs)
    ]
    return (Heading(f'Runs of "{runs.name}"{owner}'), _make_table(head, rows))


def _run_lines(runs: Runs) -> Iterable[tuple[str, Run]]:
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


_HEADINGS = {
    "account": "Accounts",
    "namespace": "Namespaces",
    "user": "Users",
    "workload": "Workloads that wasted most",
}
_MAX_ROWS = 30
"""Rows of a table, as on the dashboard."""


def digest_document(digest: Digest, currency: str) -> Document:
    wasted = "nothing of it was observed"
    if digest.wasted is not None:
        ratio = digest.wasted / digest.allocated if digest.allocated else None
        wasted = f"{words.hours(digest.wasted)}, {words.percent(ratio)} of the allocated hours"
    span = f"{words.when(digest.since)} to {words.when(digest.until)}"
    facts = [
        ("From", span),
        ("Covers", covers(digest)),
        ("Allocated", words.hours(digest.allocated)),
        ("Wasted", wasted),
    ]
    if digest.accounting_difference:
        differing = f"{words.percent(digest.accounting_difference)} of GPU time: see the log of gpu-exporter accounting"
        facts.append(("Accounts differ", differing))
    blocks: list[Block] = [Facts(tuple(facts))]
    if digest.causes:
        blocks += [Heading("What it was wasted on"), bars(digest.causes)]
    blocks += [Heading("What to change"), steps(digest.advice, known=digest.wasted == 0 or bool(digest.causes))]
    for level, rows in digest.tables.items():
        blocks += [Heading(_HEADINGS[level]), _owner_table(rows[:_MAX_ROWS], currency)]
        if len(rows) > _MAX_ROWS:
            blocks.append(Paragraph(f"The first {_MAX_ROWS} of {len(rows)}."))
    return Document(f"GPU hours of {digest.title}", tuple(blocks))


def covers(digest: Digest) -> str:
    """Return for how much of the period there is data."""
    covered = "an unknown part" if digest.covered is None else words.span(digest.covered)
    return f"data for {covered} of {words.span(digest.until - digest.since)}"


def _owner_table(rows: Sequence[Row], currency: str) -> Table:
    labels = tuple(label for label in rows[0].labels if any(row.labels[label] for row in rows))
    columns: tuple[tuple[str, Callable[[Row], str]], ...] = (
        (">Allocated", lambda row: words.hours(row.allocated)),
        (">Used", lambda row: words.hours(row.used)),
        (">Utilization", lambda row: words.percent(row.utilization)),
        (">MFU", lambda row: words.percent(row.model_flops_utilization)),
        (">MFU bound", lambda row: words.percent(row.model_flops_utilization_bound)),
        (">Wasted", lambda row: words.hours(row.wasted)),
        (">Price of waste", lambda row: "-" if row.price_wasted is None else words.money(row.price_wasted, currency)),
        ("Wasted on", lambda row: words.title(row.state)),
    )
    head = (*(label.removeprefix("workload_").capitalize() for label in labels), *(title for title, _ in columns))
    return _make_table(
        head, [(*(row.labels[label] for label in labels), *(text(row) for _, text in columns)) for row in rows]
    )
