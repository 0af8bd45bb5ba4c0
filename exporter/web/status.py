"""The status page of this node: the check's verdict, then each GPU. One document, readable on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from exporter import __version__
from exporter.core.clock import unix_time
from exporter.faults.rule import Finding, Verdict
from exporter.faults.runbooks import runbook
from exporter.faults.verdict import Report
from exporter.sampling.snapshot import NodeStatus, Snapshot
from exporter.web.history import History
from exporter.web.plot import legend
from exporter.web.status_gpu import card, percent
from exporter.web.style import STYLE, VERDICTS

_SAYS = {
    Verdict.OK: "nothing is wrong that the check knows of",
    Verdict.DEGRADED: "it works, with less than it should",
    Verdict.FAILED: "put no new work on it",
    Verdict.UNKNOWN: "nothing could be found out",
}
_GOOD, _NOT = VERDICTS[Verdict.OK], VERDICTS[Verdict.FAILED]


@dataclass(frozen=True, slots=True)
class Site:
    """What stays the same from one page to the next. `runbooks` is a URL with `{name}` in it."""

    node: str
    telemetry_path: str
    runbooks: str


def page(site: Site, snapshot: Snapshot, report: Report, limits: Mapping[str, float], history: History) -> str:
    """Draw the verdict, the GPUs with their last hour, processes and sources. `limits`: power limit by UUID."""
    status, node = snapshot.status, escape(site.node)
    cards = "".join(
        card(gpu, [f for f in report.findings if f.gpu == str(gpu.index)], limits.get(gpu.uuid), history, status.time)
        for gpu in status.gpus
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="10"><link rel="icon" href="data:,">
<title>{report.verdict.word}: GPUs of {node}</title><style>{STYLE}</style></head><body>
<header><h1>GPUs of {node}</h1>
<p class="dim">{_versions(status)} · {_age(status)} · <a href="{escape(site.telemetry_path)}">metrics</a></p></header>
{_verdict(site, snapshot, report)}{_legend(status)}<main>{cards or '<p class="dim">No GPU seen yet.</p>'}</main>
{_processes(snapshot)}{_health(status)}
</body></html>
"""


def _verdict(site: Site, snapshot: Snapshot, report: Report) -> str:
    """The verdict on the node, and every finding with what to do about it."""
    colour = VERDICTS[report.verdict]
    simulated = " (simulated GPUs)" if snapshot.status.simulated else ""
    ready = f" Not ready: {escape(snapshot.not_ready)}." if snapshot.not_ready else ""
    remark = escape(report.remark or _SAYS[report.verdict])
    items = "".join(_item(site, finding) for finding in report.findings)
    word = f'<b style="color:{colour}">{report.verdict.word}</b>'
    return (
        f'<section class="verdict" style="border-left-color:{colour}">{word}'
        f": {remark}{simulated}.{ready}{f'<ul>{items}</ul>' if items else ''}</section>"
    )


def _item(site: Site, finding: Finding) -> str:
    name = runbook(finding.rule)
    address = escape(site.runbooks.replace("{name}", name))  # which may have other braces
    link = f' <a href="{address}">runbook</a>' if name and address else ""
    return (
        f'<li><b style="color:{VERDICTS[finding.verdict]}">{finding.verdict.word}</b> {escape(finding.summary)}<br>'
        f'<span class="dim">{escape(finding.action)}</span>{link}</li>'
    )


def _versions(status: NodeStatus) -> str:
    parts = [f"gpu-exporter {__version__}"]
    parts += [f"driver {status.driver}"] if status.driver else []
    parts += [f"CUDA {status.cuda}"] if status.cuda else []
    return escape(" · ".join(parts))


def _age(status: NodeStatus) -> str:
    if not status.time:
        return "no pass yet"
    return f"read {max(unix_time() - status.time, 0):.0f} s ago, in {status.pass_seconds * 1000:.0f} ms"


def _legend(status: NodeStatus) -> str:
    used: Counter[str] = Counter()
    for gpu in status.gpus:
        used.update({state: 1 for state, seconds in gpu.states.items() if seconds > 0})
    return legend(used)


def _processes(snapshot: Snapshot) -> str:
    rows = "".join(
        f"<tr><td>{escape(row.gpu)}</td><td>{escape(row.pid)}</td><td>{escape(row.command)}</td>"
        f"<td>{escape(row.owner.workload)}</td><td>{escape(row.owner.user)}</td>"
        f"<td class='n'>{'' if row.memory_bytes is None else f'{row.memory_bytes / 2**30:.1f} GiB'}</td>"
        f"<td class='n'>{percent(row.utilization.get('sm'))}</td></tr>"
        for row in snapshot.processes
    )
    if not rows:
        return ""
    heads = "".join(f"<th>{name}</th>" for name in ("GPU", "PID", "Command", "Workload", "User"))
    heads += "".join(f'<th class="n">{name}</th>' for name in ("Memory", "SM"))
    return f"<h2>Processes</h2><div class='wide'><table><tr>{heads}</tr>{rows}</table></div>"


def _health(status: NodeStatus) -> str:
    """Whether the collectors and the sources of owners answer."""
    lines = [
        f'<li style="color:{_NOT}">collector {escape(c.name)} fails</li>' for c in status.collectors if not c.success
    ]
    for source in status.sources:
        state = "answers" if source.success else f"no answer for {source.age:.0f} s"
        lines.append(
            f'<li style="color:{_GOOD if source.success else _NOT}">attribution {escape(source.source)}: {state}</li>'
        )
    good = f'<li style="color:{_GOOD}">all collectors succeed</li>'
    return f"<h2>Exporter</h2><ul>{''.join(lines) or good}</ul>"
