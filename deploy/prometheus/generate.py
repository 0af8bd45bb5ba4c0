"""Write rule files, tables of the README and runbooks: `python -m deploy.prometheus.generate`."""

from __future__ import annotations

import sys
from pathlib import Path

from deploy.prometheus import pages, walk
from deploy.prometheus.declaration import Alert, fill
from deploy.prometheus.recordings import GROUPS
from deploy.prometheus.render import (
    ALERTS,
    CORRELATION,
    render,
    render_recordings,
    to_yaml,
)
from deploy.prometheus.states import ADVICE
from exporter.attribution.owner import KEPT_OWNER_LABELS
from exporter.ledger.states import TABLE as STATES

ROOT = Path(__file__).resolve().parents[2]
RULES = Path("deploy/prometheus/rules")
README = Path("deploy/prometheus/README.md")
RUNBOOKS = Path(pages.FOLDER)
NOTICE = "# Written by `python -m deploy.prometheus.generate`; change the declarations there.\n"
BEGIN, END = "<!-- {name}: generated -->\n", "<!-- {name}: end -->\n"


class MissingError(Exception):
    """One line: which file lacks what, and what to do."""


def files(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file with its text, by its path in the repository. Raises MissingError."""
    readme = (root / README).read_text()
    for name, table in (("recordings", _recordings()), ("alerts", _alerts())):
        readme = _replace(readme, name, table, README)
    return _rules() | {README: readme, **{_page(alert): _runbook(alert, root) for alert in ALERTS}}


def _rules() -> dict[Path, str]:
    return {
        RULES / "gpu-recording.yaml": NOTICE + to_yaml(render_recordings()),
        RULES / "gpu-alerts.yaml": NOTICE + to_yaml(render()),
    }


def _replace(text: str, name: str, table: str, file: Path) -> str:
    begin, end = BEGIN.format(name=name), END.format(name=name)
    if text.count(begin) != 1 or text.count(end) != 1:
        raise MissingError(f"{file}: expected the lines {begin.strip()} and {end.strip()}, once each")
    head, rest = text.split(begin)
    return head + begin + table + end + rest.split(end)[1]


def _page(alert: Alert) -> Path:
    return RUNBOOKS / f"{alert.runbook}.md"


def _runbook(alert: Alert, root: Path) -> str:
    """The alert's page as it is, with what the declaration says of it brought up to date."""
    page = _page(alert)
    if not (root / page).exists():
        raise MissingError(f"{page}: missing, and alert {alert.name} leads to it: copy another runbook and change it")
    text = _replace((root / page).read_text(), "rule", _facts(alert), page)
    return _replace(text, "states", _states(), page) if BEGIN.format(name="states") in text else text


def _facts(alert: Alert) -> str:
    """Meaning, whom it reaches and where to look; the query folded away."""
    to = {"oncall": "on-call", "owner": "the owner of the workload"}[alert.audience.value]
    values = {param.name: f"{param.default}" for param in alert.params}
    since = "at once" if alert.for_ == "0s" else f"after {alert.for_}"
    params = [f"- `{param.name}` = {param.default} ({param.unit.value}): {param.help}\n" for param in alert.params]
    return "".join(
        [
            f"**Meaning**: {alert.meaning}\n\n",
            f"**{alert.severity.value}**, to {to}, {since}. {walk.text(alert)}\n",
            "<details><summary>Query and parameters</summary>\n\n",
            *([*params, "\n"] if params else []),
            *("```promql\n", fill(alert.expr, values), "\n```\n\n"),
            "</details>\n",
        ]
    )


def _states() -> str:
    listed = (state for state in STATES if state.audience == "owner" or state.name in ADVICE)
    rows = (f"| `{state.name}` | {state.meaning} | {state.advice} |\n" for state in listed)
    return "".join(["| state | meaning | advice |\n", "|---|---|---|\n", *rows])


def _recordings() -> str:
    lines = ["| series | labels | value |\n", "|---|---|---|\n"]
    for rules in (*(group.rules for group in GROUPS), CORRELATION):
        for rule in rules:
            labels = ", ".join(("cluster", *rule.by))
            if set(KEPT_OWNER_LABELS) <= set(rule.by):
                labels = labels.replace(", ".join(KEPT_OWNER_LABELS), "owner's")
            elif "workload" in rule.by:
                labels = "cluster + owner's but pod and container" + (", state" if "state" in rule.by else "")
            lines.append(f"| `{rule.record}` | {labels} | {rule.help} |\n")
    return "".join(lines)


def _alerts() -> str:
    lines = ["| alert | severity | audience | for | parameters |\n", "|---|---|---|---|---|\n"]
    return "".join([*lines, *(_alert(alert) for alert in ALERTS)])


def _alert(alert: Alert) -> str:
    params = "; ".join(f"`{param.name}` {param.default}: {param.help.rstrip('.')}" for param in alert.params)
    params = params.replace("|", r"\|")
    page = f"[{alert.name}](../../docs/runbooks/{alert.runbook}.md)"
    return f"| {page} | {alert.severity.value} | {alert.audience.value} | {alert.for_} | {params} |\n"


def main() -> int:
    try:
        written = files(ROOT)
    except MissingError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path, text in written.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)
    pages.write(ROOT / pages.SERVED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
