"""Every event has one finding at every moment, by whatever path one hears of it: docs/dev/verdicts.md is the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from exporter.core.clock import UnixTime
from exporter.faults.model import Acknowledgement
from exporter.tools.check.acknowledge import append
from exporter.web import status
from tests.contract.verdicts import paths
from tests.contract.verdicts.events import EVENTS, Event
from tests.contract.verdicts.node import Node, started
from tests.golden import compare
from tests.stack import ROOT

PAGE = ROOT / "docs/dev/verdicts.md"
MINUTE = 60.0


def before_start(event: Event, folder: Path) -> Node:
    """The event is there when the exporter starts, for the first time unless its history is needed."""
    node = started(folder)
    if event.known:
        node.run(MINUTE)
    event.plant(node)
    node = node.restarted()
    node.run(MINUTE)
    return node


def running(event: Event, folder: Path) -> Node:
    node = started(folder)
    node.run(MINUTE)
    event.plant(node)
    node.run(MINUTE)
    return node


def after_restart(event: Event, folder: Path) -> Node:
    node = running(event, folder).restarted()
    node.run(MINUTE)
    return node


def after_repair(event: Event, folder: Path) -> Node:
    node = running(event, folder)
    event.repair(node)
    node.run(2 * MINUTE)
    return node


def repaired_and_restarted(event: Event, folder: Path) -> Node:
    node = after_repair(event, folder).restarted()
    node.run(MINUTE)
    return node


def repaired_while_stopped(event: Event, folder: Path) -> Node:
    """The exporter is stopped for an hour, in which the event is repaired."""
    node = running(event, folder)
    node.seconds += 30 * MINUTE
    event.repair(node)
    node.seconds += 30 * MINUTE
    node = node.restarted()
    node.run(2 * MINUTE)
    return node


def acknowledged(event: Event, folder: Path) -> Node:
    node = running(event, folder)
    append(folder, Acknowledgement(*event.subject, "ada", "seen to", UnixTime(node.now)))
    node.run(MINUTE)
    return node


MOMENTS: Mapping[str, Callable[[Event, Path], Node]] = {
    "before the start": before_start,
    "running": running,
    "after a restart": after_restart,
    "after the repair": after_repair,
    "repaired, restarted": repaired_and_restarted,
    "repaired while stopped": repaired_while_stopped,
    "acknowledged": acknowledged,
}
GONE = {"after the repair", "repaired, restarted", "repaired while stopped"}


Cell = tuple[str, str]


def test_verdict_of_every_event_is_the_same_by_every_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    nodes = {
        (name, moment): make(event, tmp_path / f"{number}-{moment.replace(' ', '-')}")
        for number, (name, event) in enumerate(EVENTS.items())
        for moment, make in MOMENTS.items()
    }
    fired = paths.alerts({" / ".join(cell): paths.text(node) for cell, node in nodes.items()}, tmp_path)
    wrong: list[str] = []
    table: dict[Cell, str] = {}
    for (name, moment), node in nodes.items():
        monkeypatch.setattr(status, "unix_time", lambda node=node: node.now)
        found = [paths.by_metrics(node), paths.by_check(node), paths.by_url(node), paths.by_page(node)]
        alerts = fired[f"{name} / {moment}"]
        finding, alert = _expected(EVENTS[name], moment)
        if any({each for each, _ in path} != finding for path in found) or alerts != alert:
            wrong.append(f"{name}, {moment}: {found} {alerts}")
        shown = ", ".join(f"`{each}` {severity}" for each, severity in sorted(found[0]))
        same = all(path == found[0] for path in found)
        table[name, moment] = "; ".join((shown, *sorted(alerts))) if shown and same else "nothing" if same else "DIFFER"

    assert not wrong, "\n".join(wrong)
    compare(PAGE, _page(table), request)


def _expected(event: Event, moment: str) -> tuple[set[str], set[str]]:
    """Return the findings and the alerts of an event at a moment."""
    finding = "" if moment in GONE else event.finding
    if moment == "acknowledged" and event.latched:
        finding = event.left
    return (set(finding.split()), set(event.alert.split())) if finding else (set(), set())


def _page(table: Mapping[Cell, str]) -> str:
    lines = [
        "# Verdicts by event, moment and path",
        "",
        "For developers. `pytest --update tests/contract/verdicts` makes this page: the real sampler over scripted",
        "GPUs, with an injected clock. A cell has the finding, and the alert that on-call gets within an hour with",
        "the example configuration of Alertmanager. The metrics,",
        "`check`, `check --check.url` and the status page show the same finding, else the cell is DIFFER.",
        "",
        f"| Event | {' | '.join(MOMENTS)} |",
        f"|---|{'---|' * len(MOMENTS)}",
        *(f"| {name} | {' | '.join(table[name, moment] for moment in MOMENTS)} |" for name in EVENTS),
        "",
        "Next: [testing.md](testing.md).",
    ]
    return "\n".join(lines) + "\n"
