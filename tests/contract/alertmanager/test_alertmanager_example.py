"""The example configuration: accepted, routed, worded and inhibited as its comments say, by the real programs."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.stack import Receiver, alertmanager, poll, program, receiver

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy/alertmanager"
CONFIG = EXAMPLE / "alertmanager.yaml"


def amtool(*arguments: str | Path) -> str:
    done = subprocess.run([program("amtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def local(folder: Path, url: str) -> Path:
    """The example with its template beside it, chat and tickets sent to `url`, and no time to gather."""
    config = yaml.safe_load(CONFIG.read_text())
    config["templates"] = [str(EXAMPLE / "gpu.tmpl")]
    config["global"].pop("slack_api_url_file")
    config["global"]["slack_api_url"] = f"{url}/chat"
    for route in (config["route"], *config["route"]["routes"]):
        route["group_wait"] = "0s"
    for entry in config["receivers"]:
        for webhook in entry.get("webhook_configs", ()):
            webhook["url"] = f"{url}/ticket"
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def test_amtool_accepts_configuration_and_template(tmp_path: Path) -> None:
    assert "SUCCESS" in amtool("check-config", local(tmp_path, "http://127.0.0.1:9"))
    assert "FAILED" not in amtool("check-config", local(tmp_path, "http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("labels", "to"),
    [
        ("alertname=GpuLost audience=oncall severity=critical cluster=c node=n instance=n:9836", "page"),
        ("alertname=GpuThermalThrottling audience=oncall severity=warning cluster=c instance=n:9836", "ticket"),
        ("alertname=GpuDriverSkew audience=oncall severity=info cluster=c", "nobody"),
        ("alertname=GpuUnderutilized audience=owner severity=warning workload=slurm:7 user=bob", "owner-mail"),
        ("alertname=GpuHeldIdle audience=owner severity=warning workload=ml/a namespace=ml", "owner-chat"),
        ("alertname=GpuHeldIdle audience=owner severity=warning workload=ml/a namespace=ml user=ada", "owner-mail"),
        ("alertname=GpuHeldIdle audience=owner severity=warning workload=docker:x", "ticket"),
        ("alertname=GpuXidApplication audience=owner severity=info workload=slurm:7 user=bob", "nobody"),
    ],
)
def test_alert_goes_to(labels: str, to: str) -> None:
    assert to == amtool("config", "routes", "test", f"--config.file={CONFIG}", *labels.split())


def test_template_is_readable() -> None:
    alert = {
        "status": "firing",
        "labels": {"workload": "ml/train-0"},
        "annotations": {"summary": "S", "description": "D.", "runbook_url": "http://r"},
        "startsAt": "2026-11-21T10:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
    }
    data = {"status": "firing", "alerts": [alert, alert], "commonLabels": {"workload": "ml/train-0"}}
    path = EXAMPLE / "gpu.tmpl"

    def render(name: str) -> str:
        text = f'{{{{ template "{name}" . }}}}'
        command = [program("amtool"), "template", "render", f"--template.glob={path}", f"--template.text={text}"]
        command += ["--template.data=/dev/stdin"]
        done = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert render("gpu.title") == "S (and 1 more)"
    assert render("gpu.owner.text").splitlines() == [
        "D.",
        "Runbook: http://r",
        "Since 2026-11-21 10:00 UTC",
        "",
        "D.",
        "Runbook: http://r",
        "Since 2026-11-21 10:00 UTC",
        "",
        "You get this because ml/train-0 holds the GPUs.",
    ]


@pytest.fixture(scope="module")
def sink() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, sink: Receiver) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    with alertmanager(local(folder, sink.url), folder) as made:
        yield made


def alert(name: str, **labels: str) -> dict[str, Any]:
    texts = {"summary": f"{name} of {labels.get('workload', 'n1')}", "description": "D.", "runbook_url": "http://r"}
    return {
        "labels": {"alertname": name, **labels},
        "annotations": texts,
        "startsAt": dt.datetime.now(dt.timezone.utc).isoformat(),
    }


def oncall(name: str, severity: str, **labels: str) -> dict[str, Any]:
    return alert(name, severity=severity, audience="oncall", **labels)


def inhibited(url: str, *alerts: dict[str, Any], names: set[str]) -> None:
    """Post `alerts`, which share a cluster of their own, and see exactly those called `names` inhibited."""
    cluster = alerts[0]["labels"]["cluster"]
    requests.post(f"{url}/api/v2/alerts", json=alerts, timeout=10).raise_for_status()

    def as_wanted() -> bool | None:
        answer = requests.get(f"{url}/api/v2/alerts", params={"filter": f'cluster="{cluster}"'}, timeout=10).json()
        found = {entry["labels"]["alertname"] for entry in answer if entry["status"]["inhibitedBy"]}
        return (len(answer) == len(alerts) and found == names) or None

    poll(f"{names} and no others to be inhibited", as_wanted, deadline=20)


NODE = {"node": "n1", "instance": "n1:9836"}
GPU = {**NODE, "gpu": "3", "uuid": "GPU-3"}


def test_node_that_is_down_inhibits_the_alerts_of_its_gpus_and_no_others(url: str) -> None:
    c = {"cluster": "down"}

    inhibited(
        url,
        oncall("GpuExporterDown", "warning", **c, **NODE),
        oncall("GpuLost", "critical", **c, **GPU),
        oncall("GpuXidHardware", "critical", **c, **GPU),
        oncall("GpuPowerBrake", "warning", **c, node="n2", instance="n2:9836", gpu="0", uuid="GPU-x"),
        alert("GpuUnderutilized", severity="warning", audience="owner", workload="slurm:7", user="bob", **c),
        names={"GpuLost", "GpuXidHardware"},
    )


def test_node_monitoring_inhibits_gpu_alerts_too(url: str) -> None:
    c = {"cluster": "notready"}

    inhibited(
        url, alert("KubeNodeNotReady", **c, node="n1"), oncall("GpuLost", "critical", **c, **GPU), names={"GpuLost"}
    )


def test_maintenance_inhibits_what_goes_to_oncall(url: str) -> None:
    c = {"cluster": "maintenance"}

    inhibited(
        url,
        oncall("GpuNodeMaintenance", "info", **c, **NODE),
        oncall("GpuLost", "critical", **c, **GPU),
        oncall("GpuExporterDown", "warning", **c, node="n2", instance="n2:9836"),
        alert("GpuHeldIdle", severity="warning", audience="owner", workload="ml/a", namespace="ml", **c),
        names={"GpuLost"},
    )


def test_critical_alert_of_a_gpu_inhibits_its_lesser_ones(url: str) -> None:
    c = {"cluster": "critical"}

    inhibited(
        url,
        oncall("GpuXidHardware", "critical", **c, **GPU),
        oncall("GpuNvlinkErrors", "warning", **c, **GPU),
        oncall("GpuLost", "critical", **c, **GPU),
        oncall("GpuPcieReplays", "warning", **c, **{**GPU, "uuid": "GPU-4"}),
        names={"GpuNvlinkErrors"},
    )


def test_cause_inhibits_effect(url: str) -> None:
    c, owner = {"cluster": "cause"}, {"audience": "owner", "severity": "warning", "user": "ada"}

    inhibited(
        url,
        oncall("GpuFanFailed", "warning", **c, **GPU),
        oncall("GpuThermalThrottling", "warning", **c, **GPU),
        oncall("GpuDriverMismatch", "critical", **c, **NODE),
        oncall("GpuCollectorFailing", "info", **c, **NODE),
        alert("GpuHeldIdle", **c, **owner, workload="ml/a"),
        alert("GpuUnderutilized", **c, **owner, workload="ml/a"),
        names={"GpuThermalThrottling", "GpuCollectorFailing", "GpuUnderutilized"},
    )


def test_owner_is_told_in_the_channel_of_the_namespace(url: str, sink: Receiver) -> None:
    about = alert(
        "GpuHeldIdle", cluster="chat", severity="warning", audience="owner", workload="nlp/b", namespace="nlp"
    )
    requests.post(f"{url}/api/v2/alerts", json=[about], timeout=10).raise_for_status()

    message = sink.first(lambda m: m.path == "/chat" and m.body["channel"] == "#nlp", "a message in #nlp").body

    (attachment,) = message["attachments"]
    assert attachment["title"] == "GpuHeldIdle of nlp/b"
    assert attachment["title_link"] == "http://r"
    assert "nlp/b holds the GPUs" in attachment["text"]
