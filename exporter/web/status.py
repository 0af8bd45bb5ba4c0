"""The status page of this node: the check's verdict, then each GPU. One document, readable on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter import __version__
from exporter.core.clock import UnixTime, unix_time
from exporter.core.printable import html_text
from exporter.faults.evaluate import STAGES, Report, evaluate
from exporter.faults.rule import Finding, Verdict, from_blocks, merge_findings
from exporter.ledger.palette import STYLES, page_colours, stack_order, style_of
from exporter.sampling.snapshot import GpuStatus, NodeStatus, Snapshot
from exporter.web.config import WebConfig
from exporter.web.history import SPAN_SECONDS, GpuHistory

VERDICTS: Mapping[Verdict, str] = {
    Verdict.OK: "var(--good)",
    Verdict.DEGRADED: "var(--warn)",
    Verdict.FAILED: "var(--bad)",
    Verdict.UNKNOWN: "var(--none)",
}

STYLE = (
    page_colours()
    + """\
*{box-sizing:border-box}body{margin:0 auto;max-width:1400px;padding:1rem;font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper)}
h1{font-size:1.4rem;margin:0}h2{font-size:1rem;margin:1.2rem 0 .5rem}.gpu h2{margin-top:0}small{font-weight:400}p{margin:.4rem 0}a{color:var(--link)}
main{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,290px),1fr));align-items:start;gap:.8rem;margin:.8rem 0 1.4rem}
.gpu,.verdict{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;min-width:0}
.verdict{border-left:8px solid;margin:.6rem 0}.verdict>b{font-size:1.2rem}.verdict ul,.finding{margin:.4rem 0 0;padding-left:1.1rem}
.finding{border-left:4px solid;padding:.2rem .6rem;margin-bottom:.6rem;font-size:.85rem}
dl{display:grid;grid-template-columns:1fr 1fr;gap:.3rem .8rem;margin:0 0 .5rem}dt{color:var(--dim);font-size:.75rem}dd{margin:0;font-variant-numeric:tabular-nums}
figure{margin:.3rem 0}svg{display:block;width:100%;height:44px;background:var(--paper);border-radius:4px}
path{fill:none;stroke:var(--link);stroke-width:1.5;vector-effect:non-scaling-stroke}figcaption{font-size:.7rem;color:var(--dim)}
.bar{display:flex;height:14px;border-radius:4px;overflow:hidden;margin:.5rem 0 .1rem;background:var(--line)}.bar i{display:block}
.legend{display:flex;flex-wrap:wrap;gap:.2rem .9rem;font-size:.8rem;color:var(--dim)}.legend i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
.owners{list-style:none;margin:.3rem 0;padding:0}.uuid{font-size:.7rem;overflow-wrap:anywhere}.dim{color:var(--dim)}
.badge{display:inline-block;border-radius:99px;padding:.1rem .6rem;font-size:.8rem;font-weight:600;border:1px solid}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.85rem}th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
"""  # noqa: E501 - a style sheet
)


_WIDTH, _HEIGHT = 240, 44


def line(label: str, points: Sequence[tuple[UnixTime, float | None]], top: float, now: UnixTime) -> str:
    """A line over the last hour, from 0 to `top`; a gap where nothing was read."""
    if sum(value is not None for _, value in points) < 2:  # noqa: PLR2004 - a line needs two points
        return ""
    drawn, pen = "", "M"
    for time, value in points:
        if value is None or time < now - SPAN_SECONDS:
            pen = "M"
            continue
        x = (time - now + SPAN_SECONDS) / SPAN_SECONDS * _WIDTH
        y = _HEIGHT - 2 - min(max(value / top, 0.0), 1.0) * (_HEIGHT - 4)
        drawn += f"{pen}{x:.1f} {y:.1f}"
        pen = "L"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{html_text(label)}"><path d="{drawn}"/></svg><figcaption>{html_text(label)}</figcaption></figure>'
    )


def bar(seconds: float, states: Mapping[str, float]) -> str:
    """Return the bar of a GPU's time, in the palette's words and colours."""
    total = sum(states.values())
    if total <= 0:
        return ""
    parts = "".join(
        f'<i style="width:{states[state] / total:.3%};background:{style_of(state).colour}" '
        f'title="{html_text(style_of(state).title)}: {states[state] / total:.1%} ({duration(states[state])})"></i>'
        for state in ordered(states)
    )
    label = f"where its time went, {period(seconds)}"
    drawn = f'<div class="bar" role="img" aria-label="{label}">{parts}</div>'
    return f"<figure>{drawn}<figcaption>{label}</figcaption></figure>"


def legend(used: Mapping[str, float]) -> str:
    keys = "".join(
        f'<span><i style="background:{style_of(state).colour}"></i>{html_text(style_of(state).title)}</span>'
        for state in ordered(used)
    )
    return f'<p class="legend">{keys}</p>' if keys else ""


def ordered(states: Mapping[str, float]) -> list[str]:
    """Those that took time, from what the GPU was bought for to free time; unknown ones last."""
    known = stack_order(STYLES)
    return sorted((s for s in states if states[s] > 0), key=lambda s: known.index(s) if s in known else len(known))


def period(seconds: float) -> str:
    return "last hour" if seconds >= SPAN_SECONDS - 180 else f"last {duration(seconds)}"


def duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


_UNKNOWN = "&ndash;"


def card(gpu: GpuStatus, findings: Sequence[Finding], limit: float | None, history: GpuHistory, now: UnixTime) -> str:
    """`limit` is the power limit in watts, where the driver reports it."""
    owners = ""
    for owner, fraction in gpu.owners:
        part = "" if fraction >= 1 else f" <small>{percent(fraction)}</small>"
        who = " · ".join(filter(None, (owner.user, owner.account)))
        user = f' <small class="dim">{html_text(who)}</small>' if who else ""
        owners += f"<li>{html_text(owner.workload or 'unknown')}{part}{user}</li>"
    worst = max((finding.verdict for finding in findings), default=None)
    border = f' style="border-color:{VERDICTS[worst]}"' if worst is not None else ""
    down = "" if gpu.up else f'<span class="badge" style="color:{VERDICTS[Verdict.FAILED]}">{_silence_text(gpu)}</span>'
    points = history.points(gpu.uuid)
    top = limit or max([point.power_watts or 0.0 for point in points] + [1.0])
    power = f"power, last hour, 0 to {top:.0f} W{' (its limit)' if limit else ''}"
    return f"""<section class="gpu"{border}>
<h2>GPU {gpu.index} <small>{html_text(gpu.model)}</small> {down}</h2>
{"".join(_finding_html(finding) for finding in findings)}
<dl><div><dt>busy</dt><dd>{percent(gpu.busy_ratio if gpu.up else None)}</dd></div>
<div><dt>memory</dt><dd>{_memory_text(gpu)}</dd></div>
<div><dt>power</dt><dd>{_number_text(gpu.power_watts, "W")}</dd></div>
<div><dt>temperature</dt><dd>{_number_text(gpu.temperature_celsius, "°C")}</dd></div></dl>
{line("busy, last hour, 0 to 100 %", [(p.time, p.busy_ratio) for p in points], 1.0, now)}
{line(power, [(p.time, p.power_watts) for p in points], top, now)}
{bar(*history.states(gpu, now))}<ul class="owners">{owners or '<li class="dim">free</li>'}</ul>
<p class="dim uuid">{html_text(gpu.uuid)}</p></section>"""


def _finding_html(finding: Finding) -> str:
    return (
        f'<p class="finding" style="border-left-color:{VERDICTS[finding.verdict]}"><b>{finding.verdict.word}</b>: '
        f'{html_text(finding.reason)}<br><span class="dim">{html_text(finding.action)}</span></p>'
    )


def _silence_text(gpu: GpuStatus) -> str:
    if gpu.up is None:
        return "not asked: a thread of the exporter does not run"
    if gpu.hung_seconds > 1:
        return f"hung for {gpu.hung_seconds:.0f} s"
    return f"silent for {gpu.age:.0f} s" if gpu.age != float("inf") else "never answered"


def _memory_text(gpu: GpuStatus) -> str:
    if gpu.memory_used_bytes is None or gpu.memory_total_bytes is None:
        return _UNKNOWN
    leaked = gpu.unattributed_bytes or 0
    note = (
        f' <small title="no process accounts for it">({leaked / 2**30:.1f} unattributed)</small>'
        if leaked > 2**30
        else ""
    )
    return f"{gpu.memory_used_bytes / 2**30:.1f} / {gpu.memory_total_bytes / 2**30:.0f} GiB{note}"


def percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{100 * value:.0f} %"


def _number_text(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} {unit}"


_SAYS = {
    Verdict.OK: "nothing is wrong that the check knows of",
    Verdict.DEGRADED: "it works, with less than it should",
    Verdict.FAILED: "put no new work on it",
    Verdict.UNKNOWN: "nothing could be found out",
}
_GOOD, _NOT = VERDICTS[Verdict.OK], VERDICTS[Verdict.FAILED]


@dataclass(frozen=True, slots=True)
class PageLinks:
    """Links that stay the same from one page to the next. `runbooks` is a URL with `{name}` in it."""

    node: str
    telemetry_path: str
    runbooks: str


def page(site: PageLinks, snapshot: Snapshot, report: Report, limits: Mapping[str, float], history: GpuHistory) -> str:
    """Draw the verdict, the GPUs with their last hour, processes and sources. `limits`: power limit by UUID."""
    status, node, age = snapshot.status, html_text(site.node), "no cycle yet"
    if status.time:
        age = f"read {max(unix_time() - status.time, 0):.0f} s ago, in {status.cycle_seconds * 1000:.0f} ms"
    cards = "".join(
        card(gpu, [f for f in report.findings if f.gpu == str(gpu.index)], limits.get(gpu.uuid), history, status.time)
        for gpu in status.gpus
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="10"><link rel="icon" href="data:,">
<title>{report.verdict.word}: GPUs of {node}</title><style>{STYLE}</style></head><body>
<header><h1>GPUs of {node}</h1>
<p class="dim">{_version_line(status)} · {age} · <a href="{html_text(site.telemetry_path)}">metrics</a></p></header>
{_node_html(site, snapshot, report)}{_legend_html(status)}<main>{cards or '<p class="dim">No GPU seen yet.</p>'}</main>
{_process_rows(snapshot)}{_health_table(status)}
</body></html>
"""


def _node_html(site: PageLinks, snapshot: Snapshot, report: Report) -> str:
    """The verdict on the node, and every finding with what to do about it."""
    colour = VERDICTS[report.verdict]
    simulated = " (simulated GPUs)" if snapshot.status.simulated else ""
    ready = f" Not ready: {html_text(snapshot.not_ready)}." if snapshot.not_ready else ""
    remark = html_text(report.remark or _SAYS[report.verdict])
    items = "".join(_finding_item(site, finding) for finding in merge_findings(report.findings))
    word = f'<b style="color:{colour}">{report.verdict.word}</b>'
    return (
        f'<section class="verdict" style="border-left-color:{colour}">{word}'
        f": {remark}{simulated}.{ready}{f'<ul>{items}</ul>' if items else ''}</section>"
    )


def _finding_item(site: PageLinks, finding: Finding) -> str:
    address = html_text(site.runbooks.replace("{name}", finding.runbook))  # which may have other braces
    link = f' <a href="{address}">runbook</a>' if finding.runbook and address else ""
    return (
        f'<li><b style="color:{VERDICTS[finding.verdict]}">{finding.verdict.word}</b> {html_text(finding.summary)}<br>'
        f'<span class="dim">{html_text(finding.action)}</span>{link}</li>'
    )


def _version_line(status: NodeStatus) -> str:
    parts = [f"gpu-exporter {__version__}"]
    parts += [f"driver {status.driver}"] if status.driver else []
    parts += [f"CUDA {status.cuda}"] if status.cuda else []
    return html_text(" · ".join(parts))


def _legend_html(status: NodeStatus) -> str:
    used: Counter[str] = Counter()
    for gpu in status.gpus:
        used.update({state: 1 for state, seconds in gpu.states.items() if seconds > 0})
    return legend(used)


def _process_rows(snapshot: Snapshot) -> str:
    rows = "".join(
        f"<tr><td>{html_text(row.gpu)}</td><td>{html_text(row.pid)}</td><td>{html_text(row.command)}</td>"
        f"<td>{html_text(row.owner.workload)}</td><td>{html_text(row.owner.user)}</td>"
        f"<td class='n'>{'' if row.memory_bytes is None else f'{row.memory_bytes / 2**30:.1f} GiB'}</td>"
        f"<td class='n'>{percent(row.utilization.get('sm'))}</td></tr>"
        for row in snapshot.processes
    )
    if not rows:
        return ""
    heads = "".join(f"<th>{name}</th>" for name in ("GPU", "PID", "Command", "Workload", "User"))
    heads += "".join(f'<th class="n">{name}</th>' for name in ("Memory", "SM"))
    return f"<h2>Processes</h2><div class='wide'><table><tr>{heads}</tr>{rows}</table></div>"


def _health_table(status: NodeStatus) -> str:
    """Return whether the collectors and the sources of owners respond."""
    lines = [
        f'<li style="color:{_NOT}">collector {html_text(c.name)} fails</li>' for c in status.collectors if not c.success
    ]
    for source in status.sources:
        state = "responds" if source.success else f"no response for {source.age:.0f} s"
        colour = _GOOD if source.success else _NOT
        lines.append(f'<li style="color:{colour}">attribution {html_text(source.source)}: {state}</li>')
    good = f'<li style="color:{_GOOD}">all collectors succeed</li>'
    return f"<h2>Exporter</h2><ul>{''.join(lines) or good}</ul>"


def render_status_page(node: str, config: WebConfig, snapshot: Snapshot, history: GpuHistory) -> str:
    site = PageLinks(node, config.telemetry_path, config.runbook_url)
    facts = from_blocks(snapshot.blocks, unix_time())
    limits = {series.labels["uuid"]: series.value for series in facts.of("gpu_power_limit_watts")}
    report = evaluate(facts, snapshot.limits, STAGES["periodic"].left_out)  # jobs run: what they hold is no fault
    return page(site, snapshot, report, limits, history)
