"""The status page of this node: one self-contained HTML document, readable on a phone."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from html import escape

from exporter import __version__
from exporter.attribution.owner import Owner
from exporter.exposition.snapshot import GpuStatus, NodeStatus, Snapshot
from exporter.web.history import History, Point
from exporter.web.style import COLOURS, STYLE

_WIDTH, _HEIGHT = 240, 44
_UNKNOWN = "&ndash;"


def page(snapshot: Snapshot, history: History, telemetry_path: str) -> str:
    """Draw the node's GPUs, processes, owners and states, and the last five minutes."""
    status = snapshot.status
    cards = "".join(_gpu(gpu, history.points(gpu.uuid)) for gpu in status.gpus)
    node = escape(socket.gethostname())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="refresh" content="10"><title>GPUs of {node}</title><style>{STYLE}</style></head><body>
<header><h1>GPUs of {node}</h1>{_badges(snapshot)}
<p class="dim">{_versions(status)} · {_age(status)} · <a href="{escape(telemetry_path)}">metrics</a></p></header>
{_legend(status)}<main>{cards or '<p class="empty">No GPU seen yet.</p>'}</main>
{_processes(snapshot)}{_health(status)}
</body></html>
"""


def _badges(snapshot: Snapshot) -> str:
    reason = snapshot.not_ready
    badges = [
        f'<span class="badge bad">not ready: {escape(reason)}</span>'
        if reason
        else '<span class="badge ok">ready</span>'
    ]
    if snapshot.status.simulated:
        badges.append('<span class="badge note">simulated</span>')
    lost = [gpu for gpu in snapshot.status.gpus if not gpu.up]
    if lost:
        badges.append(f'<span class="badge bad">{len(lost)} of {len(snapshot.status.gpus)} GPUs do not answer</span>')
    return f"<p>{' '.join(badges)}</p>"


def _versions(status: NodeStatus) -> str:
    parts = [f"gpu-exporter {__version__}"]
    parts += [f"driver {status.driver}"] if status.driver else []
    parts += [f"CUDA {status.cuda}"] if status.cuda else []
    return escape(" · ".join(parts))


def _age(status: NodeStatus) -> str:
    if not status.time:
        return "no pass yet"
    return f"read {max(time.time() - status.time, 0):.0f} s ago, in {status.pass_seconds * 1000:.0f} ms"


def _legend(status: NodeStatus) -> str:
    used = {state for gpu in status.gpus for state, seconds in gpu.states.items() if seconds > 0}
    keys = "".join(
        f'<span><i style="background:{colour}"></i>{escape(_words(state))}</span>'
        for state, colour in COLOURS.items()
        if state in used
    )
    return f'<p class="legend">{keys}</p>' if keys else ""


def _gpu(gpu: GpuStatus, points: tuple[Point, ...]) -> str:
    owners = "".join(
        f"<li>{escape(owner.workload or 'unknown')}{_share(share)}{_user(owner)}</li>" for owner, share in gpu.owners
    )
    down = "" if gpu.up else f'<span class="badge bad">{_silence(gpu)}</span>'
    return f"""<section class="{"gpu" if gpu.up else "gpu down"}">
<h2>GPU {gpu.index} <small>{escape(gpu.model)}</small> {down}</h2>
<dl><div><dt>busy</dt><dd>{_percent(gpu.busy_ratio)}</dd></div>
<div><dt>memory</dt><dd>{_memory(gpu)}</dd></div>
<div><dt>power</dt><dd>{_number(gpu.power_watts, "W")}</dd></div>
<div><dt>temperature</dt><dd>{_number(gpu.temperature_celsius, "°C")}</dd></div></dl>
{_plot("busy", points, [p.busy_ratio for p in points], 1.0)}
{_plot("power", points, [p.power_watts for p in points], None)}
{_bar(gpu.states)}<ul class="owners">{owners or '<li class="dim">free</li>'}</ul>
<p class="dim uuid">{escape(gpu.uuid)}</p></section>"""


def _silence(gpu: GpuStatus) -> str:
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


def _percent(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.0%}"


def _number(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} {unit}"


def _plot(name: str, points: tuple[Point, ...], values: list[float | None], top: float | None) -> str:
    """A line over the last five minutes; a gap where nothing was read."""
    known = [value for value in values if value is not None]
    if len(known) < 2:  # noqa: PLR2004 - a line needs two points
        return ""
    highest = top or max(*known, 1.0)
    start, span = points[-1].time - 300.0, 300.0
    paths: list[str] = []
    pen = "M"
    for point, value in zip(points, values, strict=True):
        if value is None:
            pen = "M"
            continue
        x = (point.time - start) / span * _WIDTH
        y = _HEIGHT - 2 - min(value / highest, 1.0) * (_HEIGHT - 4)
        paths.append(f"{pen}{x:.1f} {y:.1f}")
        pen = "L"
    label = f"{name}, last 5 minutes"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        f'<path d="{"".join(paths)}"/></svg><figcaption>{label}</figcaption></figure>'
    )


def _bar(states: Mapping[str, float]) -> str:
    """The GPU's ledger since start, as one stacked bar."""
    total = sum(states.values())
    if total <= 0:
        return ""
    parts = "".join(
        f'<i style="width:{seconds / total:.3%};background:{COLOURS.get(state, "#999")}" '
        f'title="{escape(_words(state))}: {seconds / total:.1%} ({_duration(seconds)})"></i>'
        for state, seconds in states.items()
        if seconds > 0
    )
    return f'<div class="bar" role="img" aria-label="time by state">{parts}</div>'


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _words(state: str) -> str:
    return state.replace("_", " ")


def _processes(snapshot: Snapshot) -> str:
    rows = "".join(
        f"<tr><td>{escape(row.gpu)}</td><td>{escape(row.pid)}</td><td>{escape(row.command)}</td>"
        f"<td>{escape(row.owner.workload)}</td><td>{escape(row.owner.user)}</td>"
        f"<td class='n'>{'' if row.memory_bytes is None else f'{row.memory_bytes / 2**30:.1f} GiB'}</td>"
        f"<td class='n'>{_percent(row.utilization.get('sm'))}</td></tr>"
        for row in snapshot.processes
    )
    if not rows:
        return ""
    heads = "".join(f"<th>{name}</th>" for name in ("GPU", "PID", "Command", "Workload", "User", "Memory", "SM"))
    return f"<h2>Processes</h2><div class='wide'><table><tr>{heads}</tr>{rows}</table></div>"


def _health(status: NodeStatus) -> str:
    failing = [c.name for c in status.collectors if not c.success]
    lines = [f"<li class='bad'>collector {escape(name)} fails</li>" for name in failing]
    lines += [
        f"<li class='{'ok' if source.success else 'bad'}'>attribution {escape(source.source)}: "
        f"{'answers' if source.success else f'no answer for {source.age:.0f} s'}</li>"
        for source in status.sources
    ]
    return f"<h2>Health</h2><ul>{_joined(lines) or '<li class=ok>all collectors succeed</li>'}</ul>"


def _joined(lines: Iterable[str]) -> str:
    return "".join(lines)
