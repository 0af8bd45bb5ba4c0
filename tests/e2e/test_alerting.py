"""A fault of a simulated GPU reaches the right receiver, by real Prometheus and Alertmanager, and so does its end."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from deploy.prometheus.render import Settings, render, render_recordings, to_yaml
from tests.stack import ROOT, Message, Receiver, alertmanager, free_port, poll, prometheus, receiver, running

pytestmark = pytest.mark.xdist_group("alerting")

# The rules as they are, with the durations of a test. The job that waits for storage is busy for 30 % of its time.
# That a busy machine answers a scrape a second late now and then is no fault of the scenario.
SETTINGS = Settings(
    values={
        "GpuUnderutilized": {"min_utilization_ratio": 0.5, "window": "10s", "for": "2s", "keepFiringFor": "1s"},
        "GpuThermalThrottling": {"window": "5s", "for": "2s", "keepFiringFor": "1s"},
        "GpuLost": {"wait": "20s", "keepFiringFor": "1s"},  # longer than a GPU takes to be counted again
        "GpuExporterDown": {"for": "2s", "keepFiringFor": "1s"},
        "GpuSampleStale": {"max_changes": 1000},
    },
    interval="1s",
    slow_interval="1s",
)

SCENARIO = {
    "gpus": "4xH100",
    "nodes": ["gpu-a", "gpu-b"],
    "workloads": [
        {
            "name": "slow",
            "pattern": "storage-bound",
            "user": "bob",
            "job": 77,
            "nodes": "gpu-a",
            "gpus": "0",
            "duration": 40,
        },
        {
            "name": "train",
            "pattern": "training",
            "user": "ada",
            "account": "vision",
            "job": 78,
            "nodes": "gpu-a",
            "gpus": "1-3",
        },
    ],
    "faults": [
        {"kind": "thermal", "node": "gpu-a", "gpu": 1, "at": 12, "duration": 25},
        {"kind": "lost", "node": "gpu-a", "gpu": 2, "at": 12, "duration": 40},
    ],
}
"""The slow job runs from the start for 40 s; GPU 1 is hot and GPU 2 off the bus from 12 s on."""


@dataclass(slots=True)
class Node:
    """A simulated node: its exporter, and the Unix time its simulation began."""

    name: str
    folder: Path
    start: float
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def state(self) -> Path:
        """A directory of its own: two exporters that write one state file undo each other's faults."""
        path = self.folder / f"state-{self.name}"
        path.mkdir(exist_ok=True)
        return path

    def run(self) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        command = [
            *(sys.executable, "-m", "exporter"),
            *("--simulate", f"@{self.folder / 'scenario.yaml'};node={self.name};start={self.start}"),
            *("--web.listen-address", f"127.0.0.1:{self.port}", "--state.dir", str(self.state)),
        ]
        return running(command, self.folder / f"{self.name}.log")

    def answers(self) -> bool | None:
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"http://127.0.0.1:{self.port}/metrics", timeout=2).ok or None
        return None


def alertmanager_config(folder: Path, url: str) -> Path:
    """The shipped example, its routes and inhibition as they are, with every receiver a path of `url`."""
    config = yaml.safe_load((ROOT / "deploy/alertmanager/alertmanager.yaml").read_text())
    names = [each["name"] for each in config["receivers"]]
    config["receivers"] = [{"name": name, "webhook_configs": [{"url": f"{url}/{name}"}]} for name in names]
    for route in (config["route"], *config["route"]["routes"]):
        route |= {"group_wait": "0s", "group_interval": "1s"}
    del config["templates"], config["global"]
    path = folder / "alertmanager.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def prometheus_config(folder: Path, nodes: list[Node], alerts: str) -> Path:
    recordings = [group for group in render_recordings("1s")["groups"] if group["name"] in NEEDED]
    (folder / "rules.yaml").write_text(to_yaml({"groups": [*recordings, *render(SETTINGS)["groups"]]}))
    targets = [{"targets": [f"127.0.0.1:{node.port}"], "labels": {"node": node.name}} for node in nodes]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s", "external_labels": {"cluster": "c1"}},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "gpu-exporter", "static_configs": targets}],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alerts.removeprefix("http://")]}]}]},
    }
    path = folder / "prometheus.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@dataclass(frozen=True, slots=True)
class Stack:
    nodes: dict[str, Node]
    start: float
    sink: Receiver

    def told(self, receiver_: str, status: str, **labels: str) -> tuple[Message, dict[str, Any]]:
        """The first message to a receiver with an alert of this status and these labels, and that alert."""

        def match(alert: dict[str, Any]) -> bool:
            return alert["status"] == status and labels.items() <= alert["labels"].items()

        message = self.sink.first(
            lambda m: m.path == f"/{receiver_}" and any(map(match, m.body["alerts"])),
            f"{labels} {status} at {receiver_}; came: {[(m.path, _names(m)) for m in self.sink.messages]}",
            deadline=240,
        )
        return message, next(alert for alert in message.body["alerts"] if match(alert))


def _names(message: Message) -> list[str]:
    return [f"{alert['labels']['alertname']} {alert['status']}" for alert in message.body["alerts"]]


NEEDED = (
    "gpu-state", "gpu-target", "gpu-device", "gpu-part", "gpu-node", "gpu-owner", "gpu-alert", "gpu-alert-rate",
    "gpu-place",
)  # fmt: skip
"""Groups of recordings that these alerts are made of."""
LEADS = (10.0, 40.0, 160.0)
"""Seconds from the first program to the start of the scenario: where not all is up by then, all starts again."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    for lead in LEADS:
        folder = tmp_path_factory.mktemp("alerting")
        (folder / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
        with contextlib.ExitStack() as exits:
            found = started(exits, folder, time.time() + lead)
            if time.time() < found.start or lead == LEADS[-1]:
                yield found
                return


def started(exits: contextlib.ExitStack, folder: Path, start: float) -> Stack:
    """All programs, up and answering: what fires before the nodes answer would be no fault of the scenario."""
    nodes = {name: Node(name, folder, start) for name in SCENARIO["nodes"]}
    for node in nodes.values():
        node.process = exits.enter_context(node.run())
    for node in nodes.values():
        poll(f"the exporter of {node.name}", node.answers)
    sink = exits.enter_context(receiver())
    alerts = exits.enter_context(alertmanager(alertmanager_config(folder, sink.url), folder))
    exits.enter_context(prometheus(prometheus_config(folder, list(nodes.values()), alerts), folder))
    return Stack(nodes, start, sink)


Measured = Callable[[str, object], None]


def measured(record_property: Measured, message: Message, fault: float, waits: str) -> None:
    record_property("measured", f"{message.time - fault:.1f} s from fault to webhook, {waits} of them by the rule")


def test_owner_hears_of_low_utilization_with_cause_and_advice(stack: Stack, record_property: Measured) -> None:
    message, alert = stack.told("owner-letter", "firing", alertname="GpuUnderutilized", user="bob", slurm_job="77")

    measured(record_property, message, stack.start, "12 s")
    assert 'slurm:77 "slow" of bob' in alert["annotations"]["summary"]
    assert "Waits for storage" in alert["annotations"]["description"]
    assert "Cache the data on local disk" in alert["annotations"]["description"]


def test_oncall_hears_of_a_hot_gpu_and_whom_it_hits(stack: Stack, record_property: Measured) -> None:
    message, alert = stack.told("ticket", "firing", alertname="GpuThermalThrottling", node="gpu-a", gpu="1")

    measured(record_property, message, stack.start + 12, "2 s")
    assert 'Affected: slurm:78 "train" (ada).' in alert["annotations"]["description"]


def test_oncall_is_paged_for_the_first_xid_79(stack: Stack, record_property: Measured) -> None:
    message, alert = stack.told("page", "firing", alertname="GpuLost", node="gpu-a", gpu="2", evidence="XID 79")

    measured(record_property, message, stack.start + 12, "0 s")
    assert "Drain the node and restart it." in alert["annotations"]["description"]


def test_oncall_hears_of_an_exporter_that_is_down_and_of_its_return(stack: Stack, record_property: Measured) -> None:
    node = stack.nodes["gpu-b"]
    assert node.process is not None
    node.process.kill()
    node.process.wait()
    killed = time.time()

    message, alert = stack.told("ticket", "firing", alertname="GpuExporterDown", node="gpu-b")
    measured(record_property, message, killed, "2 s")
    assert f"127.0.0.1:{node.port}" in alert["annotations"]["description"]
    with node.run():
        stack.told("ticket", "resolved", alertname="GpuExporterDown", node="gpu-b")


@pytest.mark.parametrize(
    ("to", "name", "labels"),
    [
        ("owner-letter", "GpuUnderutilized", {"user": "bob"}),
        ("ticket", "GpuThermalThrottling", {"gpu": "1"}),
    ],
)
def test_recovery_is_told_to_who_was_told_of_the_fault(
    stack: Stack, to: str, name: str, labels: dict[str, str]
) -> None:
    stack.told(to, "resolved", alertname=name, **labels)


def test_xid_stands_until_somebody_acknowledges_it(stack: Stack) -> None:
    node = stack.nodes["gpu-a"]
    assert not any("GpuLost resolved" in _names(message) for message in stack.sink.messages)

    subprocess.run(
        [
            sys.executable,
            "-m",
            "exporter",
            "acknowledge",
            "--state.dir",
            node.state,
            "--gpu",
            "2",
            "--reason",
            "reseated",
        ],
        check=True,
    )

    stack.told("page", "resolved", alertname="GpuLost", gpu="2")


def test_nobody_was_told_of_what_had_no_fault(stack: Stack) -> None:
    told = [alert for message in stack.sink.messages for alert in message.body["alerts"]]
    faults = {"GpuUnderutilized", "GpuThermalThrottling", "GpuLost", "GpuExporterDown"}

    assert {alert["labels"]["alertname"] for alert in told} - {"GpuWatchdog"} == faults, [
        (alert["labels"], alert["annotations"])
        for alert in told
        if alert["labels"]["alertname"] not in faults | {"GpuWatchdog"}
    ]
