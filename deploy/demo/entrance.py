"""The demo's first page: a tour, what four nodes do now, where their GPU time goes, and which messages were sent."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from deploy.demo.cluster import NODES, Node
from deploy.demo.grafana import URL as GRAFANA
from deploy.demo.inbox import Message
from deploy.demo.prometheus import Prometheus, QueryError, Sample
from deploy.prometheus.states import BUSY, LOST, regex
from exporter.ledger.palette import STYLES, stack_order, style_of
from exporter.ledger.states import BY_STATE

_WINDOW = "1m"
_BY_WORKLOAD = f"sum by (node, workload, user, state) (rate(gpu_workload_gpu_seconds_total[{_WINDOW}])) > 0.01"
_LEAST = 0.05
"""GPUs; less would be shown as 0.0."""
_FAULTS = "max by (node, gpu, fault, evidence) (gpu_fault_timestamp_seconds)"
_FIGURES: Sequence[tuple[str, str, str]] = (
    ("GPUs online", "sum(gpu_up)", "{:.0f}"),
    ("GPUs busy", f'sum(rate(gpu_state_seconds_total{{state=~"{regex(BUSY)}"}}[{_WINDOW}]))', "{:.1f}"),
    (
        "GPUs wasted",
        f'sum(rate(gpu_workload_gpu_seconds_total{{state=~"{regex(LOST)}"}}[{_WINDOW}]))',
        "{:.1f}",
    ),
    ("alerts firing", 'count(ALERTS{alertstate="firing"}) or vector(0)', "{:.0f}"),
    ("kW", "sum(gpu_power_watts) / 1000", "{:.1f}"),
)


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses of the other parts of the demo. `nodes` are the status pages by node."""

    nodes: Mapping[str, str]
    prometheus: str
    dashboards: Sequence[tuple[str, str]]
    """Title and uid."""
    grafana: str
    """The command that shows the dashboards in a real Grafana."""


def body(prometheus: Prometheus, messages: Sequence[Message], links: Links) -> str:
    return (
        '<p class="note">gpu-exporter shows whose GPU time is lost, and why. This demo runs it on four simulated '
        "nodes. Exporter, Prometheus, Alertmanager and rules are real. Alerts fire after minutes here, instead of "
        "half an hour.</p>"
        + _tour(prometheus, links)
        + _figures(prometheus)
        + _where(prometheus)
        + _nodes(prometheus, links)
        + _alerts(prometheus)
        + f"<h2>Messages sent</h2>{inbox(messages[:6]) or _nobody()}"
        + _more(prometheus, links)
    )


def _tour(prometheus: Prometheus, links: Links) -> str:
    """Five links, in the order in which a person on call would open them."""
    lossy = "topk(5, sum by (workload, state) (rate(gpu_workload_gpu_seconds_total[1m])))"
    stops = (
        ("/d/gpu-fleet", "All GPUs", "the fleet at a glance"),
        ("/report/slurm:41508000", "A wasteful job", "its report, with the cause and advice"),
        (f"{links.nodes['serve-1']}/", "A broken node", "its status page, with the repair"),
        ("/inbox", "The messages", "what on-call and owners received"),
        (_graph(prometheus, lossy), "Your own question", "a query in Prometheus"),
    )
    items = (
        f'<li><a href="{escape(url)}">{name}</a><span class="dim">: {about}</span></li>' for url, name, about in stops
    )
    return f'<ol class="tour">{"".join(items)}</ol>'


def _graph(prometheus: Prometheus, query: str) -> str:
    return f"{prometheus.url}/graph?g0.tab=1&g0.expr={quote(query)}"


def inbox(messages: Sequence[Message]) -> str:
    """Each message as its reader sees it."""
    return "".join(
        f'<article class="message {escape(message.kind)}"><span class="dim">{escape(message.kind)} to '
        f"{escape(message.to)}, {time.strftime('%H:%M:%S', time.localtime(message.time))}</span><br>"
        f"<strong>{escape(message.subject)}</strong><pre>{_linked(message.text)}</pre></article>"
        for message in messages
    )


def _linked(text: str) -> str:
    words = escape(text).split(" ")
    return " ".join(_lines(word) for word in words)


def _lines(word: str) -> str:
    return "\n".join(
        f'<a href="{part}">{part}</a>' if part.startswith("http://127.0.0.1") else part for part in word.split("\n")
    )


def _nobody() -> str:
    return '<p class="dim">Nobody yet. The first message comes after half a minute.</p>'


def _ask(prometheus: Prometheus, expression: str) -> Sequence[Sample]:
    try:
        return prometheus.instant(expression)
    except QueryError:
        return ()


def _figures(prometheus: Prometheus) -> str:
    parts: list[str] = []
    for name, expression, shape in _FIGURES:
        found = _ask(prometheus, expression)
        parts.append(f"<div><b>{shape.format(found[0].value) if found else '&ndash;'}</b>{escape(name)}</div>")
    return f'<div class="figures">{"".join(parts)}</div>'


def _where(prometheus: Prometheus) -> str:
    found = _ask(prometheus, f"sum by (state) (rate(gpu_state_seconds_total[{_WINDOW}])) > 0")
    by_state = {sample.labels["state"]: sample.value for sample in found}
    total = sum(by_state.values())
    if not total:
        return "<p>The first numbers come in a few seconds.</p>"
    shown_states = [state for state in stack_order(STYLES) if by_state.get(state, 0.0) >= _LEAST]
    order = [(style_of(state), BY_STATE[state], by_state[state]) for state in shown_states]
    bar = "".join(
        f'<i style="width:{gpus / total:.2%};background:{shown.colour}" title="{escape(rule.meaning)}"></i>'
        for shown, rule, gpus in order
    )
    keys = "".join(
        f'<span><i style="background:{shown.colour}"></i>{escape(shown.title)} {gpus:.1f}</span>'
        for shown, _, gpus in order
    )
    query = escape(_graph(prometheus, "sum by (state) (rate(gpu_state_seconds_total[1m]))"))
    return (
        f"<h2>Where {total:.0f} GPUs' time goes, last minute</h2>"
        f'<div class="bar">{bar}</div><p class="keys">{keys}</p>'
        f'<p class="dim"><a href="{query}">the query in Prometheus</a></p>'
    )


def _nodes(prometheus: Prometheus, links: Links) -> str:
    states: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    users: dict[str, str] = {}
    for sample in _ask(prometheus, _BY_WORKLOAD):
        node, workload = sample.labels.get("node", ""), sample.labels.get("workload", "")
        states[node, workload][sample.labels["state"]] = sample.value
        users[workload] = sample.labels.get("user", "")
    faults: dict[str, list[str]] = defaultdict(list)
    for sample in _ask(prometheus, _FAULTS):
        about = sample.labels.get("evidence") or sample.labels.get("fault", "")
        faults[sample.labels.get("node", "")].append(f"GPU {sample.labels.get('gpu', '')}: {about}")
    cards: list[str] = []
    for one in NODES:
        rows = [
            _workload(name, users[name], by_state) for (on, name), by_state in sorted(states.items()) if on == one.name
        ]
        cards.append(_card(one, sorted(faults[one.name]), rows, links))
    return f'<h2>The nodes</h2><div class="cards">{"".join(cards)}</div>'


def _card(node: Node, faults: Sequence[str], rows: Sequence[str], links: Links) -> str:
    broken = "".join(f'<p class="fault">{escape(fault)}</p>' for fault in faults)
    return (
        f'<section class="card"><h3>{escape(node.name)}</h3><p>{escape(node.story)}</p>{broken}'
        f"<table>{''.join(rows)}</table>"
        f'<p><a href="{links.nodes[node.name]}/">status page</a> · '
        f'<a href="{links.nodes[node.name]}/metrics">metrics</a> · '
        f'<a href="/d/gpu-node?var-instance={quote(node.name)}">dashboard</a></p></section>'
    )


def _workload(name: str, user: str, states: Mapping[str, float]) -> str:
    gpus = sum(states.values())
    busy = sum(seconds for state, seconds in states.items() if state in BUSY) / gpus
    lost = {state: seconds for state, seconds in states.items() if state in LOST}
    note = ""
    if lost and max(lost.values()) > 0.1 * gpus:
        top = max(lost, key=lambda state: lost[state])
        rule, shown = BY_STATE[top], style_of(top)
        note = (
            f'<tr class="why"><td colspan="3"><span style="color:{shown.colour}">■</span> {escape(shown.title)} '
            f'{100 * lost[top] / gpus:.0f} %: <span class="dim">{escape(rule.advice)}</span></td></tr>'
        )
    whose = f' <span class="dim">{escape(user)}</span>' if user else ""
    count = f"{gpus:.1f}".removesuffix(".0")
    title = escape(name).replace("/", "/<wbr>")
    return (
        f'<tr><td><a href="/report/{quote(name, safe=":")}">{title}</a>{whose}</td>'
        f"<td>{count}&nbsp;GPU{'s' if count != '1' else ''}</td><td>{100 * busy:.0f}&nbsp;%&nbsp;busy</td></tr>{note}"
    )


def _alerts(prometheus: Prometheus) -> str:
    found = _ask(prometheus, "ALERTS")
    rows = "".join(
        f"<tr><td>{escape(sample.labels.get('alertstate', ''))}</td>"
        f'<td><a href="/runbooks/{escape(sample.labels["alertname"].lower())}">{escape(sample.labels["alertname"])}</a>'
        f"</td><td>{escape(_about(sample.labels))}</td><td>{escape(sample.labels.get('severity', ''))}</td></tr>"
        for sample in sorted(found, key=lambda one: (one.labels.get("alertstate", ""), one.labels["alertname"]))
    )
    none = "<p class='dim'>None yet: conditions must last, so the first ones come after a minute.</p>"
    head = "<tr><th>state</th><th>alert</th><th>about</th><th>severity</th></tr>"
    return (
        f'<h2>Alerts</h2><div class="card wide"><table>{head}{rows}</table></div>' if rows else f"<h2>Alerts</h2>{none}"
    )


def _about(labels: Mapping[str, str]) -> str:
    gpu = f"GPU {labels['gpu']}" if labels.get("gpu") else ""
    return " ".join(part for part in (labels.get("workload", ""), labels.get("node", ""), gpu) if part)


def _more(prometheus: Prometheus, links: Links) -> str:
    dashboards = " · ".join(f'<a href="/d/{escape(uid)}">{escape(title)}</a>' for title, uid in links.dashboards)
    return (
        f"<h2>More</h2><p>Dashboards: {dashboards}</p>"
        '<p class="dim">The demo draws them from the same JSON files. With Docker, see them in Grafana: '
        f"<code>{escape(links.grafana)}</code>, then open {GRAFANA}</p>"
        '<p><a href="/report">Report of the last hour</a> · '
        f'<a href="{escape(_graph(prometheus, "gpu_up"))}">Prometheus</a> · '
        f'<a href="{links.prometheus}/classic/rules">rules</a> · '
        f'<a href="{links.prometheus}/classic/targets">targets</a> · '
        '<a href="/alertmanager/">Alertmanager</a></p>'
    )
