"""The card of one GPU on the status page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from exporter.attribution.owner import Owner
from exporter.core.clock import UnixTime
from exporter.faults.rule import Finding, Verdict
from exporter.sampling.snapshot import GpuStatus
from exporter.web.history import History
from exporter.web.plot import bar, line
from exporter.web.style import VERDICTS

_UNKNOWN = "&ndash;"


def card(gpu: GpuStatus, findings: Sequence[Finding], limit: float | None, history: History, now: UnixTime) -> str:
    """`limit` is the power limit in watts, where the driver reports it."""
    owners = "".join(
        f"<li>{escape(owner.workload or 'unknown')}{_share(share)}{_user(owner)}</li>" for owner, share in gpu.owners
    )
    down = "" if gpu.up else f'<span class="badge" style="color:{VERDICTS[Verdict.FAILED]}">{_silence(gpu)}</span>'
    points = history.points(gpu.uuid)
    top = limit or max([point.power_watts or 0.0 for point in points] + [1.0])
    power = f"power, last hour, 0 to {top:.0f} W{' (its limit)' if limit else ''}"
    return f"""<section class="gpu"{_border(findings)}>
<h2>GPU {gpu.index} <small>{escape(gpu.model)}</small> {down}</h2>
{"".join(_finding(finding) for finding in findings)}
<dl><div><dt>busy</dt><dd>{percent(gpu.busy_ratio if gpu.up else None)}</dd></div>
<div><dt>memory</dt><dd>{_memory(gpu)}</dd></div>
<div><dt>power</dt><dd>{_number(gpu.power_watts, "W")}</dd></div>
<div><dt>temperature</dt><dd>{_number(gpu.temperature_celsius, "°C")}</dd></div></dl>
{line("busy, last hour, 0 to 100 %", [(p.time, p.busy_ratio) for p in points], 1.0, now)}
{line(power, [(p.time, p.power_watts) for p in points], top, now)}
{bar(*history.states(gpu, now))}<ul class="owners">{owners or '<li class="dim">free</li>'}</ul>
<p class="dim uuid">{escape(gpu.uuid)}</p></section>"""


def _border(findings: Sequence[Finding]) -> str:
    worst = max((finding.verdict for finding in findings), default=None)
    return f' style="border-color:{VERDICTS[worst]}"' if worst is not None else ""


def _finding(finding: Finding) -> str:
    return (
        f'<p class="finding" style="border-left-color:{VERDICTS[finding.verdict]}"><b>{finding.verdict.word}</b>: '
        f'{escape(finding.reason)}<br><span class="dim">{escape(finding.action)}</span></p>'
    )


def _silence(gpu: GpuStatus) -> str:
    if gpu.up is None:
        return "not asked: a thread of the exporter does not run"
    if gpu.hung_seconds > 1:
        return f"hung for {gpu.hung_seconds:.0f} s"
    return f"silent for {gpu.age:.0f} s" if gpu.age != float("inf") else "never answered"


def _share(share: float) -> str:
    return "" if share >= 1 else f" <small>{share:.0%}</small>"


def _user(owner: Owner) -> str:
    who = " · ".join(part for part in (owner.user, owner.account) if part)
    return f' <small class="dim">{escape(who)}</small>' if who else ""


def _memory(gpu: GpuStatus) -> str:
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
    return _UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} {unit}"
