"""`make e2e-messages`: what people get of an event, by a real Alertmanager and a real mail server.

The alerts are those that the rules send in their promtool cases, with their texts. Other receivers are
web servers of this program. Prints the table of docs/dev/messages.md with every message, and the fraction of mail
clients that support the mails. Needs Go to build mailpit once.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

from tests.contract.alertmanager.example import local
from tests.e2e import letters
from tests.stack import ROOT, Receiver, alertmanager, free_port, poll, receiver, running

MAILPIT = "github.com/axllent/mailpit@v1.27.11"
PROGRAM = ROOT / ".cache/mailpit/mailpit"
MIN_SUPPORT = 85
"""Percent of mail clients, by mailpit's HTML check."""
CASES = yaml.safe_load((ROOT / "tests/contract/rules/expected.yaml").read_text())
Alert = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """An event, and the messages that people may get of it. `name` is the cluster and the user of its alerts."""

    name: str
    title: str
    alerts: tuple[Alert, ...]
    messages: int


def _alert(title: str, event: str, **labels: str) -> Alert:
    """Return the alert of the first promtool case that begins so, in a cluster and of a user of the event."""
    kind = title.partition(":")[0]
    case = next(found for name, found in CASES.items() if name.startswith(title) and found)[0]
    own = case["exp_labels"] | {"alertname": kind, "cluster": event} | labels
    if own["audience"] == "owner":
        own |= {"user": labels.get("user", event)}
    return {"labels": own, "annotations": case["exp_annotations"]}


def _nodes(kind: str, event: str, nodes: int, gpus: int = 0) -> Iterator[Alert]:
    for n in range(nodes):
        place = {"node": f"n{n}", "instance": f"n{n}:9836"}
        for gpu in range(gpus):
            yield _alert(kind, event, **place, gpu=str(gpu), uuid=f"GPU-{n}-{gpu}")
        if not gpus:
            yield _alert(kind, event, **place)


def _incident(event: str, nodes: int, case: str) -> Iterator[Alert]:
    yield from _nodes("GpuIncidentNode", event, nodes)
    yield _alert(f"GpuIncident: {case}", event)


def _tasks(kind: str, event: str, count: int) -> Iterator[Alert]:
    return (_alert(kind, event, workload=f"slurm:100_{task}") for task in range(count))


def events() -> tuple[Event, ...]:
    """Return the events. What the rules themselves keep silent (new nodes, a gap, a relabel) brings no alert more."""

    def event(name: str, title: str, messages: int, *alerts: Iterable[Alert]) -> Event:
        return Event(name, title, tuple(each for some in alerts for each in some), messages)

    lost = tuple(_nodes("GpuLost", "pair", 1, 1))
    letter, waste = "GpuAllocatedIdle", "GpuOwnerWaste"
    return (
        event(
            "rack",
            "a rack of 16 nodes is down",
            1,
            [_alert("GpuExportersDown: a rack", "rack", rack="r1")],
            (each | {"labels": each["labels"] | {"rack": "r1"}} for each in _nodes("GpuExporterDown", "rack", 16)),
        ),
        event(
            "part",
            "a rack of 16 nodes that is a fifth of its cluster is down",
            1,
            [_alert("GpuExportersDown: a rack", "part", rack="r1"), _alert("GpuExportersDown: 99 of 100", "part")],
            (each | {"labels": each["labels"] | {"rack": "r1"}} for each in _nodes("GpuExporterDown", "part", 16)),
        ),
        event(
            "room",
            "a room with 24 nodes gets hot (192 GPUs)",
            1,
            _incident("room", 24, "the room gets hot"),
            _nodes("GpuThermalThrottling", "room", 24, 8),
        ),
        event(
            "brake",
            "the power brake of a rack with 4 nodes (32 GPUs)",
            1,
            _incident("brake", 4, "the power brake of a rack"),
            _nodes("GpuPowerBrake: the whole time", "brake", 4, 8),
        ),
        event(
            "brakes",
            "the power brake of two racks with 8 nodes (64 GPUs)",
            1,
            _incident("brakes", 8, "the power brake of a rack"),
            _nodes("GpuPowerBrake: the whole time", "brakes", 8, 8),
        ),
        event(
            "lost",
            "32 nodes lose a GPU at once",
            1,
            _incident("lost", 32, "forty nodes at once"),
            _nodes("GpuLost", "lost", 32, 1),
        ),
        event(
            "array",
            "an array of 100 underused tasks",
            1,
            _tasks("GpuUnderutilized", "array", 100),
            [_alert(f"{waste}: an array of 100", "array")],
        ),
        event("hang", "an array of 100 tasks that hang", 1, _tasks("GpuWorkloadHung", "hang", 100)),
        event(
            "pods",
            "a job of 64 pods that idles",
            1,
            [
                _alert(f"{letter}: a controller", "pods"),
                _alert("GpuUnderutilized", "pods", workload="ml/agent"),
                _alert(f"{waste}: a crash loop", "pods"),
            ],
        ),
        event(
            "service",
            "a service without requests for 24 h",
            1,
            [_alert(f"{letter}: a service", "service"), _alert(f"{waste}: a service", "service")],
        ),
        event(
            "notebook",
            "a notebook that nobody uses over night",
            1,
            [_alert(f"{letter}: a forgotten notebook", "notebook"), _alert(f"{waste}: a notebook", "notebook")],
        ),
        event(
            "notebooks",
            "64 idle notebooks of one user and one of another",
            2,
            _tasks(f"{letter}: a forgotten notebook", "notebooks", 64),
            [
                _alert(f"{letter}: a forgotten notebook", "notebooks", user="other", workload="nb/other"),
                _alert(f"{waste}: a notebook", "notebooks"),
                _alert(f"{waste}: a notebook", "notebooks", user="other"),
            ],
        ),
        event("crash", "a crash loop for ten hours", 1, [_alert(f"{waste}: a crash loop", "crash")]),
        event("chain", "a chain of short jobs that idle", 1, [_alert(f"{waste}: jobs of 25 minutes", "chain")]),
        event(
            "new",
            "16 new nodes that are not ready yet",
            0,
            _nodes("GpuNodeMaintenance", "new", 16),
            _nodes("GpuNodeWithoutExporter", "new", 16),
        ),
        event(
            "broken",
            "16 new nodes, of which one stays broken",
            1,
            _nodes("GpuNodeMaintenance", "broken", 15),
            _nodes("GpuNodeWithoutExporter", "broken", 16),
        ),
        event("pair", "a lost GPU, told by both of a pair of Prometheus", 1, lost, lost),
        event("flap", "30 targets flap", 1, _nodes("GpuSampleStale: every second", "flap", 30)),
        event(
            "receivers",
            "a lost GPU, to each receiver of receivers.yaml",
            3,
            (
                _alert("GpuLost", "receivers", audience="test", **{"try": name})
                for name in ("page-opsgenie", "ticket-slack", "ticket-teams")
            ),
        ),
    )


def main() -> int:
    if not PROGRAM.exists() and not _build():
        return 2
    with tempfile.TemporaryDirectory() as name:
        return _try(Path(name))


def _build() -> bool:
    if shutil.which("go") is None:
        sys.stderr.write("e2e-messages: go is missing, which builds mailpit, the mail server\n")
        return False
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(PROGRAM.parent), "CGO_ENABLED": "0"}
    done = subprocess.run(["go", "install", "-trimpath", MAILPIT], env=environment, check=False)
    if done.returncode:
        sys.stderr.write("e2e-messages: mailpit, the mail server, cannot be built\n")
    return done.returncode == 0


def _try(folder: Path) -> int:
    smtp, web = free_port(), free_port()
    mail = f"http://127.0.0.1:{web}/api/v1"
    command = [str(PROGRAM), "--smtp", f"127.0.0.1:{smtp}", "--listen", f"127.0.0.1:{web}", "--disable-version-check"]
    with running(command, folder / "mailpit.log"), receiver() as sink:
        poll("mailpit to answer", lambda: _ready(f"{mail}/messages"))
        config = local(folder, sink.url, f"127.0.0.1:{smtp}", wait="3s")
        with alertmanager(config, folder) as url:
            wrong = [each for each in (_tell(event, url, sink, mail) for event in events()) if each]
            low = _support(mail)
        wrong += _letters(folder, smtp, mail)
        again = tuple(each for each in events() if each.name in {"rack", "array"})
        with alertmanager(config, folder) as url:
            wrong += [each for each in (_tell(event, url, sink, mail, "restart") for event in again) if each]
    for each in (*wrong, *low):
        sys.stdout.write(f"FAILED  {each}\n")
    return 1 if wrong or low else 0


def _ready(url: str) -> bool | None:
    try:
        return requests.get(url, timeout=2).ok or None
    except requests.RequestException:
        return None


def _tell(event: Event, url: str, sink: Receiver, mail: str, after: str = "start") -> str:
    """Post the alerts of an event, and then one of a cluster of its own by each way, after which all has been sent."""
    last = f"{event.name}-last-{after}"
    ways = (
        _alert("GpuTargetsGone", last),
        _alert("GpuMemoryLeaked", last),
        _alert("GpuXidApplication", last),
        _alert("GpuAllocatedIdle", last),
    )
    for some in (event.alerts, ways):
        now = dt.datetime.now(dt.timezone.utc).isoformat()
        body = [each | {"startsAt": now} for each in some]
        requests.post(f"{url}/api/v2/alerts", json=body, timeout=10).raise_for_status()
    poll(f"what was sent after {event.title}", lambda: len(list(_messages(last, sink, mail))) >= len(ways) - 1 or None)
    found = list(_messages(event.name, sink, mail))
    sys.stdout.write(
        f"| {event.title}, {after} of Alertmanager | {len(event.alerts)} | {len(found)} |\n"
        + "".join(f"\n{m}\n" for m in found)
    )
    return "" if len(found) == event.messages else f"{event.title}: {len(found)} messages, not {event.messages}"


def _letters(folder: Path, smtp: int, mail: str) -> list[str]:
    """Send the letters of the accounting service, and return those that are wrong."""
    letters.send(folder, smtp)
    found = {name: list(_messages(name, Receiver("", []), mail)) for name in letters.LETTERS}
    sys.stdout.write("".join(f"\n{text}\n" for texts in found.values() for text in texts))
    return [
        f"letter to {name}: {found[name]}"
        for name, lines in letters.LETTERS.items()
        if len(found[name]) != 1 or not all(line in found[name][0].splitlines() for line in lines)
    ]


def _messages(event: str, sink: Receiver, mail: str) -> Iterator[str]:
    for message in list(sink.messages):
        if message.path == "/pagerduty" and f"cluster = {event}\n" in str(
            message.body["payload"]["custom_details"]["firing"]
        ):
            yield f"PagerDuty: {message.body['payload']['summary']}{message.body['payload']['custom_details']['text']}"
        elif message.path == "/chat" and f"%2Ccluster%3D%22{event}%22" in str(message.body):
            yield "Slack: {title}{text}".format(**message.body["attachments"][0])
        elif message.path == "/opsgenie/v2/alerts" and f"%2Ccluster%3D%22{event}%22" in str(message.body):
            yield "Opsgenie: {message}{description}".format(**message.body)
        elif message.body.get("commonLabels", {}).get("cluster") == event:
            texts = message.body["alerts"][0]["annotations"]
            yield f"{message.path}: " + "\n".join(f"{name}: {text}" for name, text in texts.items())
    for entry in requests.get(f"{mail}/messages?limit=500", timeout=10).json()["messages"]:
        text = requests.get(f"{mail}/message/{entry['ID']}", timeout=10).json()["Text"]
        if any(to["Address"] == f"{event}@example.org" for to in entry["To"]) or f"%2Ccluster%3D%22{event}%22" in text:
            yield f"Mail: {entry['Subject']}\n{text}"


def _support(mail: str) -> list[str]:
    """Print how many of the mail clients support each letter; return those with too few."""
    found: list[str] = []
    worst = 100.0
    for entry in requests.get(f"{mail}/messages?limit=500", timeout=10).json()["messages"]:
        answer = requests.get(f"{mail}/message/{entry['ID']}/html-check", timeout=30)
        if not answer.ok:
            raise RuntimeError(f"{entry['Subject']}: {answer.text}")
        total = answer.json()["Total"]
        worst = min(worst, total["Supported"])
        if total["Supported"] < MIN_SUPPORT:
            found.append(f"{entry['Subject']}: supported by {total['Supported']:.0f} % of mail clients")
    sys.stdout.write(f"HTML of the mails: supported by {worst:.1f} % of mail clients at least\n")
    return found


if __name__ == "__main__":
    sys.exit(main())
