"""What people get: counted in a storm, and held against the limits of mail, chat and pagers, by a real Alertmanager."""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any, cast

import pytest
import requests
from aiosmtpd.controller import Controller

from deploy.alertmanager.owners import OwnersError, read, template
from tests.contract.alertmanager.example import EXAMPLE, alert, local, oncall
from tests.stack import Receiver, alertmanager, free_port, poll, receiver


@dataclass
class MailServer:
    """A real SMTP server that keeps what it is given. No slots: aiosmtpd reads all members; 3.11.2 fails at them."""

    mails: list[tuple[list[str], EmailMessage]] = field(default_factory=list[tuple[list[str], EmailMessage]])
    longest: int = 0
    """Bytes of the longest line that came."""

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802 - aiosmtpd's name
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        self.longest = max(self.longest, *(len(line) for line in envelope.content.splitlines()))
        self.mails.append((list(envelope.rcpt_tos), cast("EmailMessage", message)))
        return "250 OK"

    def to(self, address: str) -> EmailMessage:
        return poll(f"a mail to {address}", lambda: next((m for to, m in list(self.mails) if to == [address]), None))


@pytest.fixture(scope="module")
def sink() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def mail() -> Iterator[tuple[MailServer, int]]:
    server, port = MailServer(), free_port()
    controller = Controller(server, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield server, port
    finally:
        controller.stop()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, sink: Receiver, mail: tuple[MailServer, int]) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("messages")
    with alertmanager(local(folder, sink.url, f"127.0.0.1:{mail[1]}", wait="1s"), folder) as made:
        yield made


def post(url: str, *alerts: dict[str, Any]) -> None:
    requests.post(f"{url}/api/v2/alerts", json=alerts, timeout=10).raise_for_status()


def lost(cluster: str, nodes: int) -> list[dict[str, Any]]:
    return [
        oncall("GpuLost", "critical", cluster=cluster, node=f"n{n}", instance=f"n{n}:9836", gpu="3", uuid=f"GPU-{n}")
        for n in range(nodes)
    ]


def pages(sink: Receiver, cluster: str) -> list[Any]:
    told = [m.body for m in list(sink.messages) if m.path == "/pagerduty"]
    return [body for body in told if f"cluster = {cluster}\n" in body["payload"]["custom_details"]["firing"]]


def muted(url: str, cluster: str, name: str) -> int:
    """How many alerts of this name are inhibited."""
    wanted = {"filter": [f'cluster="{cluster}"', f'alertname="{name}"']}
    answer = requests.get(f"{url}/api/v2/alerts", params=wanted, timeout=10).json()
    return sum(bool(entry["status"]["inhibitedBy"]) for entry in answer)


def settled(sink: Receiver, url: str, cluster: str) -> list[Any]:
    """Pages about a cluster, when what was posted later has been sent."""
    post(url, oncall("GpuTargetsGone", "critical", cluster=f"{cluster}-last"))
    poll("the last page", lambda: pages(sink, f"{cluster}-last") or None)
    return pages(sink, cluster)


def test_forty_nodes_that_lose_a_gpu_one_by_one_are_forty_pages(url: str, sink: Receiver) -> None:
    post(url, *lost("alone", 40))

    poll("forty pages", lambda: len(pages(sink, "alone")) == 40 or None)


def test_forty_nodes_that_lose_a_gpu_at_once_are_one_page(url: str, sink: Receiver) -> None:
    members = [
        oncall("GpuIncidentNode", "info", cluster="storm", node=f"n{n}", instance=f"n{n}:9836") for n in range(40)
    ]

    post(url, *lost("storm", 40), *members, oncall("GpuIncident", "critical", cluster="storm"))

    poll("forty alerts to be muted", lambda: muted(url, "storm", "GpuLost") == 40 or None)
    (page,) = settled(sink, url, "storm")
    assert page["payload"]["summary"] == "GpuIncident of n1"


def test_a_second_incident_while_the_first_stands_is_a_page_of_its_own(url: str, sink: Receiver) -> None:
    post(url, oncall("GpuIncident", "critical", cluster="again"))
    poll("the first page", lambda: pages(sink, "again") or None)

    post(url, oncall("GpuIncident", "critical", cluster="again", wave="2"))

    poll("the second page", lambda: len({page["dedup_key"] for page in pages(sink, "again")}) == 2 or None)


def test_ninety_nine_exporters_down_are_one_page_and_no_ticket(url: str, sink: Receiver) -> None:
    down = [
        oncall("GpuExporterDown", "warning", cluster="dark", node=f"n{n}", instance=f"n{n}:9836") for n in range(99)
    ]

    post(url, oncall("GpuExportersDown", "critical", cluster="dark"), *down)

    poll("99 alerts to be muted", lambda: muted(url, "dark", "GpuExporterDown") == 99 or None)
    assert len(settled(sink, url, "dark")) == 1
    assert [m for m in sink.messages if m.path == "/ticket" and m.body["commonLabels"].get("cluster") == "dark"] == []


@pytest.mark.parametrize("name", ["GpuSampleStale", "GpuNodeWithoutExporter"])
def test_thirty_nodes_with_the_same_trouble_of_their_exporters_are_one_ticket(
    url: str, sink: Receiver, name: str
) -> None:
    cluster = f"all-{name.lower()}"

    post(url, *(oncall(name, "warning", cluster=cluster, node=f"n{n}", instance=f"n{n}:9836") for n in range(30)))

    message = sink.first(lambda m: m.path == "/ticket" and m.body["commonLabels"].get("cluster") == cluster, "a ticket")
    assert len(message.body["alerts"]) == 30


HEAT = [
    (node, gpu, {"node": f"n{node}", "instance": f"n{node}:9836", "gpu": str(gpu), "uuid": f"GPU-{node}-{gpu}"})
    for node in range(24)
    for gpu in range(8)
]


def test_room_that_gets_hot_is_one_page_and_no_ticket(url: str, sink: Receiver) -> None:
    hot = [oncall("GpuThermalThrottling", "warning", cluster="room", **gpu) for _, _, gpu in HEAT]
    members = [
        oncall("GpuIncidentNode", "info", cluster="room", node=f"n{n}", instance=f"n{n}:9836") for n in range(24)
    ]

    post(url, *members, oncall("GpuIncident", "critical", cluster="room"), *hot)

    poll("192 alerts to be muted", lambda: muted(url, "room", "GpuThermalThrottling") == 192 or None)
    assert len(settled(sink, url, "room")) == 1
    assert [m for m in sink.messages if m.path == "/ticket" and m.body["commonLabels"].get("cluster") == "room"] == []


def wasted(name: str, user: str, workload: str) -> dict[str, Any]:
    return alert(name, cluster="array", severity="warning", audience="owner", workload=workload, user=user)


def test_array_of_hundred_underused_tasks_is_one_letter(url: str, mail: tuple[MailServer, int]) -> None:
    post(url, *(wasted("GpuUnderutilized", "carl", f"slurm:100_{task}") for task in range(100)))

    letter = mail[0].to("carl@example.org")
    assert letter["Subject"] == "GPUs left idle or underused: 100 workloads"
    post(url, alert("GpuXidApplication", severity="warning", audience="owner", workload="slurm:9", user="last"))
    mail[0].to("last@example.org")
    assert sum(to == ["carl@example.org"] for to, _ in mail[0].mails) == 1


def test_second_alert_on_the_same_idle_gpus_is_no_second_message(url: str, mail: tuple[MailServer, int]) -> None:
    names = ("GpuAllocatedIdle", "GpuUnderutilized", "GpuOwnerWaste")
    post(url, *(wasted(name, "dora", "slurm:5") for name in names))

    letter = mail[0].to("dora@example.org")
    assert letter["Subject"] == "GpuOwnerWaste of slurm:5"


def test_hundred_tasks_that_hang_are_one_mail(url: str, mail: tuple[MailServer, int]) -> None:
    post(url, *(wasted("GpuWorkloadHung", "emil", f"slurm:200_{task}") for task in range(100)))

    assert mail[0].to("emil@example.org")["Subject"] == "GpuWorkloadHung of slurm:200_0 (and 99 more)"


def test_dead_mans_switch_hears_the_watchdog(url: str, sink: Receiver) -> None:
    post(url, oncall("GpuWatchdog", "info"))

    assert sink.first(lambda m: m.path == "/dead-mans-switch", "the watchdog").body["status"] == "firing"


def test_owner_gets_a_mail_with_cause_and_way_out(url: str, mail: tuple[MailServer, int]) -> None:
    about = alert("GpuAllocatedIdle", cluster="c", severity="warning", audience="owner", workload="slurm:7", user="ada")
    about["annotations"] |= {"description": "slurm:7 held 2 GPUs <for nothing>.", "runbook_url": "https://r/x"}

    post(url, about)

    message = mail[0].to("ada.lovelace@example.org")  # as the site's table says, not ada@
    assert message["Subject"] == "GpuAllocatedIdle of slurm:7"
    assert len(str(message["Subject"])) <= 998
    text, html = (message.get_body((kind,)) for kind in ("plain", "html"))
    assert text is not None
    assert html is not None
    assert "slurm:7 held 2 GPUs <for nothing>." in text.get_content()
    assert "the GPUs are allocated to slurm:7" in text.get_content()
    assert "&lt;for nothing&gt;" in html.get_content()
    assert 'href="https://r/x"' in html.get_content()


def test_user_the_table_does_not_name_has_the_default_address(url: str, mail: tuple[MailServer, int]) -> None:
    post(url, alert("GpuXidApplication", severity="warning", audience="owner", workload="slurm:8", user="bob"))

    assert "GpuXidApplication" in mail[0].to("bob@example.org")["Subject"]


def storm(name: str) -> list[dict[str, Any]]:
    """Sixty long alerts in one group."""
    made = [oncall("GpuIncident", "critical", **{"try": name}, cluster="limits", number=str(n)) for n in range(60)]
    for each in made:
        each["annotations"] |= {"summary": f"{'A long line of words ' * 20}end", "description": "Much to say. " * 60}
        each["labels"] |= {"audience": "test"}
    return made


def test_slack_takes_the_message(url: str, sink: Receiver) -> None:
    post(url, *storm("ticket-slack"))

    body = sink.first(lambda m: m.path == "/chat" and m.body["channel"] == "#gpu-tickets", "a message").body

    (attachment,) = body["attachments"]
    assert len(attachment["title"]) <= 1024
    assert len(attachment["text"]) < 40_000  # Slack cuts a message there
    assert "40 more fire" in attachment["text"]


@pytest.mark.parametrize("of", ["chat", "tickets"])
def test_name_of_a_job_calls_nobody_in_slack_and_links_nowhere(url: str, sink: Receiver, of: str) -> None:
    """Names are chosen by whoever starts the job: Nomad, for one, takes any without spaces."""
    evil, cluster = f"{of}&b<!channel><@U123><https://evil.example|click>*bold*", f"names-{of}"
    to = (
        {"audience": "owner", "workload_namespace": cluster}
        if of == "chat"
        else {"audience": "test", "try": "ticket-slack"}
    )
    about = alert("GpuWorkloadHung", cluster=cluster, severity="warning", workload=evil, **to)
    about["annotations"]["description"] = f"{evil} held 2 GPUs."

    post(url, about)

    (attachment,) = sink.first(lambda m: m.path == "/chat" and f"{of}&" in json.dumps(m.body), of).body["attachments"]
    shown = f"{of}&amp;b&lt;!channel&gt;&lt;@U123&gt;&lt;https://evil.example|click&gt;*bold*"
    assert attachment["title"] == attachment["fallback"] == f"GpuWorkloadHung of {shown}"
    assert f"{shown} held 2 GPUs." in attachment["text"]
    assert "<" not in attachment["text"]
    assert attachment["mrkdwn_in"] == ["pretext"]  # what *bold* says is a name too


def test_opsgenie_takes_the_alert(url: str, sink: Receiver) -> None:
    post(url, *storm("page-opsgenie"))

    body = sink.first(lambda m: m.path == "/opsgenie/v2/alerts", "an alert").body

    assert len(body["message"]) <= 130
    assert body["message"].endswith("(+59)")
    assert len(body["description"]) <= 15_000
    assert len(body["alias"]) <= 512
    assert body["priority"] == "P1"
    assert all(len(tag) <= 50 for tag in body["tags"])
    assert len(body["tags"]) <= 20


def test_teams_channel_gets_a_mail(url: str, mail: tuple[MailServer, int]) -> None:
    post(url, *storm("ticket-teams"))

    message = mail[0].to("gpu-tickets.example@emea.teams.ms")

    assert len(message.as_bytes()) < 250_000
    assert mail[0].longest <= 998


def test_pagerduty_takes_the_event(url: str, sink: Receiver) -> None:
    many = lost("limits", 1)
    many[0]["annotations"]["summary"] = "A long line " * 200

    post(url, *many)

    body = sink.first(lambda m: m.path == "/pagerduty" and "limits" in json.dumps(m.body), "an event").body
    assert body["event_action"] == "trigger"
    assert body["payload"]["severity"] == "critical"
    assert len(body["payload"]["summary"]) <= 1024
    assert len(body["dedup_key"]) <= 255
    assert len(json.dumps(body)) <= 512_000


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("user,ada", "line 1: expected user,NAME,ADDRESS"),
        ("team,x,y@z", "line 1: expected user,NAME,ADDRESS"),
        ("user,ada,a b@c", "line 1: 'ada' or 'a b@c'"),
        ('user,a"}},x@y', "line 1"),
        ("# head\nuser,ada,a@b\nuser,ada,c@d", "line 3: user ada is there twice"),
    ],
)
def test_table_of_owners_that_is_wrong_is_refused(table: str, complaint: str) -> None:
    with pytest.raises(OwnersError, match=complaint):
        read(table.splitlines())


def test_shipped_template_of_owners_is_made_from_the_shipped_table() -> None:
    made = template(read((EXAMPLE / "owners.csv").read_text().splitlines()))

    assert Path(EXAMPLE / "owners.tmpl").read_text() == made


def test_table_may_be_empty() -> None:
    assert "{{ with .CommonLabels.user }}{{ . }}{{ end }}" in template(read([]))
