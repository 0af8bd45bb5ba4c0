"""The demo's cluster: its four nodes, and how Prometheus and Alertmanager watch them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deploy.demo.processes import Service, free_port
from deploy.prometheus.recordings import INTERVAL
from deploy.prometheus.render import Settings, render, render_recordings, to_yaml

ROOT = Path(__file__).resolve().parents[2]
ALERTMANAGER = ROOT / "deploy/alertmanager"
_BIN = ROOT / ".cache/prometheus/bin"


@dataclass(frozen=True, slots=True)
class Node:
    """A simulated node; `story` is what an operator should find out about it."""

    name: str
    spec: str
    story: str


NODES = (
    Node(
        "train-1",
        "8xH200:4*training,2*input-bound,thermal,allocated-idle;scheduler=slurm;seed=11",
        "Eight H200 under Slurm. Four train well. One job waits for its data loader, one GPU is too hot, and one job "
        "allocates a GPU it does not use.",
    ),
    Node(
        "train-2",
        "8xH100:8*storage-bound;duty=0.2;scheduler=slurm;seed=12",
        "Eight H100, all allocated to one job that reads its data from slow storage: busy one fifth of the time.",
    ),
    Node(
        "serve-1",
        "4xL40S:2*inference,tiny-kernels,free;scheduler=kubernetes;seed=13;fault=row-remap-failed:2@75",
        "Four L40S under Kubernetes. After a minute the memory of GPU 2 breaks beyond repair: watch the page arrive.",
    ),
    Node(
        "mig-1",
        "2xH100-mig:training,inference,tiny-kernels;scheduler=kubernetes;seed=14",
        "Two H100 cut into MIG instances, each with an owner of its own.",
    ),
)


_MISSED = "2m"
"""Windows of seconds are empty where a busy machine misses scrapes; nobody gets the same mail again for that."""


def settings(runbooks: str) -> Settings:
    """The alerts with their thresholds as delivered; only what they wait for is shorter: nobody waits an hour here."""
    return Settings(
        values={
            "GpuAllocatedIdle": {"window": "30s", "for": "0s", "keepFiringFor": _MISSED},
            "GpuUnderutilized": {"window": "1m", "for": "30s", "keepFiringFor": _MISSED},
            "GpuThermalThrottling": {"window": "30s", "for": "0s", "keepFiringFor": _MISSED},
        },
        disabled={"GpuExporterSimulated"},
        runbooks=runbooks,
        interval="5s",
        slow_interval="5s",
    )


def exporters(site: str) -> Sequence[Service]:
    made: list[Service] = []
    for number, node in enumerate(NODES):
        address = f"127.0.0.1:{free_port(9836 + number)}"
        spec = f"{node.spec};node={node.name}"
        flags = ("--simulate", spec, "--web.listen-address", address, "--log.level", "warning")
        links = ("--web.runbook-url", f"{site}/runbooks/{{name}}")
        command = (sys.executable, "-m", "exporter", *flags, *links)
        made.append(Service(node.name, command, f"http://{address}", "/-/ready"))
    return made


def prometheus(work: Path, nodes: Sequence[Service], alertmanager: Service, site: str) -> Service:
    url = f"127.0.0.1:{free_port(9090)}"
    targets = [
        {"targets": [node.address], "labels": {"cluster": "demo", "node": node.name, "instance": node.name}}
        for node in nodes
    ]
    (work / "alerts.yaml").write_text(to_yaml(render(settings(f"{site}/runbooks/{{name}}"))))
    (work / "recordings.yaml").write_text(to_yaml(render_recordings(INTERVAL)))
    config = {
        "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
        "rule_files": [str(work / "recordings.yaml"), str(work / "alerts.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager.address]}]}]},
        "scrape_configs": [{"job_name": "gpu-exporter", "static_configs": targets}],
    }
    (work / "prometheus.json").write_text(json.dumps(config))
    command = (
        str(_BIN / "prometheus"),
        f"--config.file={work / 'prometheus.json'}",
        f"--storage.tsdb.path={work / 'prometheus'}",
        f"--web.listen-address={url}",
        "--log.level=warn",
    )
    return Service("Prometheus", command, f"http://{url}", "/-/ready")


def alertmanager(work: Path, site: str, smtp: int) -> Service:
    url = f"127.0.0.1:{free_port(9093)}"
    config = yaml.safe_load((ALERTMANAGER / "alertmanager.yaml").read_text())
    (work / "alertmanager.json").write_text(json.dumps(received_here(config, site, smtp)))
    command = (
        str(_BIN / "alertmanager"),
        f"--config.file={work / 'alertmanager.json'}",
        f"--storage.path={work / 'alertmanager'}",
        f"--web.listen-address={url}",
        f"--web.external-url={site}/alertmanager",
        "--web.route-prefix=/",
        "--cluster.listen-address=",
        "--log.level=warn",
    )
    return Service("Alertmanager", command, f"http://{url}", "/-/ready")


def received_here(config: Mapping[str, Any], site: str, smtp: int) -> Mapping[str, Any]:
    """The delivered configuration with its routes, but every message goes to this demo, and soon."""
    made = dict(config)
    made["templates"] = [str(ALERTMANAGER / Path(template).name) for template in config["templates"]]
    made["global"] = {
        "smtp_smarthost": f"127.0.0.1:{smtp}",
        "smtp_from": config["global"]["smtp_from"],
        "smtp_require_tls": False,
        "smtp_hello": "demo",
        "slack_api_url": f"{site}/receive/chat",
        "pagerduty_url": f"{site}/receive/page",
    }
    made["route"] = _soon(config["route"])
    made["receivers"] = [_receiver(receiver, site) for receiver in config["receivers"]]
    return made


def _soon(route: Mapping[str, Any]) -> Mapping[str, Any]:
    """A route that waits seconds where the delivered one waits minutes."""
    made = {**route, "group_wait": "5s", "group_interval": "1m"}
    if "routes" in route:
        made["routes"] = [_soon(inner) for inner in route["routes"]]
    return made


def _receiver(receiver: Mapping[str, Any], site: str) -> Mapping[str, Any]:
    if receiver["name"] == "dead-mans-switch":  # it misses messages, and nobody reads them
        return {"name": receiver["name"]}
    made = dict(receiver)
    for pager in made.get("pagerduty_configs", ()):
        pager.pop("routing_key_file", None)
        pager["routing_key"] = "demo"
    for hook in made.get("webhook_configs", ()):
        hook["url"] = f"{site}/receive/ticket"
    return made
