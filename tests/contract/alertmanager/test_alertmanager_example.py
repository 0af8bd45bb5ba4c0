"""The example configuration: accepted, routed, worded and inhibited as its comments say, by the real programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.contract.alertmanager.example import CONFIG, alert, amtool, local, oncall
from tests.stack import Receiver, alertmanager, poll, receiver


def test_amtool_accepts_configuration_and_template(tmp_path: Path) -> None:
    assert "SUCCESS" in amtool("check-config", local(tmp_path, "http://127.0.0.1:9"))
    assert "FAILED" not in amtool("check-config", local(tmp_path, "http://127.0.0.1:9"))


@pytest.mark.parametrize(
    ("labels", "to"),
    [
        ("alertname=GpuLost audience=oncall severity=critical cluster=c node=n instance=n:9836", "page"),
        ("alertname=GpuThermalThrottling audience=oncall severity=warning cluster=c instance=n:9836", "ticket"),
        ("alertname=GpuDriverSkew audience=oncall severity=info cluster=c", "nobody"),
        ("alertname=GpuUnderutilized audience=owner severity=warning workload=slurm:7 user=bob", "owner-letter"),
        (
            "alertname=GpuAllocatedIdle audience=owner severity=warning workload=a workload_namespace=ml",
            "owner-channel-letter",
        ),
        (
            "alertname=GpuAllocatedIdle audience=owner severity=warning workload=a workload_namespace=ml user=ada",
            "owner-letter",
        ),
        ("alertname=GpuOwnerWaste audience=owner severity=warning user=ada", "owner-letter"),
        ("alertname=GpuWorkloadHung audience=owner severity=warning workload=a workload_namespace=ml", "owner-chat"),
        ("alertname=GpuPowerBrake audience=oncall severity=warning cluster=c instance=n:9836", "ticket"),
        ("alertname=GpuAllocatedIdle audience=owner severity=warning workload=docker:x", "ticket"),
        ("alertname=GpuXidApplication audience=owner severity=warning workload=slurm:7 user=bob", "owner-mail"),
        ("alertname=GpuWatchdog audience=oncall severity=info", "dead-mans-switch"),
        ("alertname=GpuIncident audience=oncall severity=critical cluster=c", "page"),
        ("alertname=GpuExporterDown audience=oncall severity=warning cluster=c instance=n:9836", "ticket"),
    ],
)
def test_alert_goes_to(labels: str, to: str) -> None:
    assert to == amtool("config", "routes", "test", f"--config.file={CONFIG}", *labels.split())


@pytest.fixture(scope="module")
def sink() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, sink: Receiver) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("alertmanager")
    with alertmanager(local(folder, sink.url), folder) as made:
        yield made


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
        oncall("GpuRecoveryActionNeeded", "critical", **c, **GPU),
        oncall("GpuPowerBrake", "warning", **c, node="n2", instance="n2:9836", gpu="0", uuid="GPU-x"),
        alert("GpuUnderutilized", severity="warning", audience="owner", workload="slurm:7", user="bob", **c),
        names={"GpuLost", "GpuRecoveryActionNeeded"},
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
        alert("GpuAllocatedIdle", severity="warning", audience="owner", workload="ml/a", workload_namespace="ml", **c),
        names={"GpuLost"},
    )


def test_lost_gpu_inhibits_what_follows_from_it_and_nothing_else(url: str) -> None:
    c = {"cluster": "lost"}

    inhibited(
        url,
        oncall("GpuLost", "critical", **c, **GPU),
        oncall("GpuNvlinkFabricDegraded", "warning", **c, **GPU),
        oncall("GpuSampleStale", "warning", **c, **GPU),
        oncall("GpuPcieDegraded", "warning", **c, **{**GPU, "uuid": "GPU-4"}),
        names={"GpuNvlinkFabricDegraded", "GpuSampleStale"},
    )


def test_old_memory_error_does_not_mute_later_troubles_of_its_gpu(url: str) -> None:
    c = {"cluster": "old-error"}

    inhibited(
        url,
        oncall("GpuRecoveryActionNeeded", "critical", **c, **GPU),
        oncall("GpuThermalThrottling", "warning", **c, **GPU),
        oncall("GpuPcieDegraded", "warning", **c, **GPU),
        oncall("GpuResetPending", "warning", **c, **GPU),
        names={"GpuResetPending"},
    )


def test_cluster_that_is_down_inhibits_racks_and_nodes_and_no_other_cluster(url: str) -> None:
    c = {"cluster": "dark"}

    inhibited(
        url,
        oncall("GpuExportersDown", "critical", **c),
        oncall("GpuExportersDown", "critical", **c, rack="r1") | {"generatorURL": "http://p/rack"},
        oncall("GpuExporterDown", "warning", **c, rack="r1", **NODE),
        oncall("GpuTargetsGone", "critical", **c),
        names={"GpuExporterDown", "GpuExportersDown"},
    )


def test_site_that_is_down_inhibits_its_clusters_and_no_other_site(url: str) -> None:
    def down(name: str, severity: str, site: str, cluster: str, **labels: str) -> dict[str, Any]:
        return oncall(name, severity, site=site, cluster=cluster, **labels)

    posted = [
        down("GpuExportersDown", "critical", "north", ""),
        down("GpuExportersDown", "critical", "north", "n-a"),
        down("GpuExportersDown", "critical", "north", "n-b", rack="r1"),
        down("GpuExporterDown", "warning", "north", "n-b", **NODE),
        down("GpuExporterDown", "warning", "south", "s-a", **NODE),
        down("GpuExportersDown", "critical", "south", "s-b"),
        down("GpuLost", "critical", "north", "n-a", node="n7", instance="n7:9836", gpu="3", uuid="GPU-3"),
    ]
    requests.post(f"{url}/api/v2/alerts", json=posted, timeout=10).raise_for_status()

    def muted() -> list[str] | None:
        answer = requests.get(f"{url}/api/v2/alerts", params={"filter": 'site=~"north|south"'}, timeout=10).json()
        quiet = sorted(e["labels"].get("cluster", "") for e in answer if e["status"]["inhibitedBy"])
        return quiet if len(answer) == len(posted) and quiet else None

    assert poll("the site's alerts to be muted", muted, deadline=20) == ["n-a", "n-b", "n-b"]


def test_rack_that_is_down_inhibits_its_own_nodes(url: str) -> None:
    c = {"cluster": "racks"}

    inhibited(
        url,
        oncall("GpuExportersDown", "critical", **c, rack="r1"),
        oncall("GpuExporterDown", "warning", **c, rack="r1", **NODE),
        oncall("GpuSampleStale", "warning", **c, rack="r2", node="n2", instance="n2:9836"),
        names={"GpuExporterDown"},
    )


def test_drained_slurm_node_without_a_node_label_is_in_maintenance_too(url: str) -> None:
    c = {"cluster": "slurm"}

    inhibited(
        url,
        oncall("GpuNodeMaintenance", "info", **c, instance="n1:9836"),
        oncall("GpuExporterDown", "warning", **c, instance="n1:9836"),
        oncall("GpuExportersDown", "critical", **c),
        names={"GpuExporterDown"},
    )


def test_cause_inhibits_effect(url: str) -> None:
    c, owner = {"cluster": "cause"}, {"audience": "owner", "severity": "warning", "user": "ada"}

    inhibited(
        url,
        oncall("GpuNvswitchError", "critical", **c, **NODE),
        oncall("GpuNvlinkFabricDegraded", "warning", **c, **GPU),
        oncall("GpuDriverUnavailable", "critical", **c, **NODE),
        oncall("GpuSourceFailing", "warning", **c, **NODE),
        alert("GpuAllocatedIdle", **c, **owner, workload="ml/a"),
        alert("GpuUnderutilized", **c, **owner, workload="ml/a"),
        names={"GpuNvlinkFabricDegraded", "GpuSourceFailing", "GpuUnderutilized"},
    )


def test_heat_and_power_explain_a_low_clock_and_no_power_limit_that_was_set(url: str) -> None:
    c = {"cluster": "limited"}
    other = {**GPU, "gpu": "4", "uuid": "GPU-4"}

    inhibited(
        url,
        oncall("GpuThermalThrottling", "warning", **c, **GPU),
        oncall("GpuPowerBrake", "warning", **c, **other),
        oncall("GpuPerformanceLimited", "warning", **c, **GPU, finding="power_limit"),
        oncall("GpuPerformanceLimited", "warning", **c, **other, finding="power_limit"),
        names=set(),
    )
    inhibited(
        url,
        oncall("GpuThermalThrottling", "warning", cluster="slowed", **GPU),
        oncall("GpuPerformanceLimited", "warning", cluster="slowed", **GPU, finding="limited"),
        names={"GpuPerformanceLimited"},
    )


def test_owner_is_told_in_the_channel_of_the_namespace(url: str, sink: Receiver) -> None:
    about = alert(
        "GpuWorkloadHung",
        cluster="chat",
        severity="warning",
        audience="owner",
        workload="nlp/b",
        workload_namespace="nlp",
    )
    requests.post(f"{url}/api/v2/alerts", json=[about], timeout=10).raise_for_status()

    message = sink.first(lambda m: m.path == "/chat" and m.body["channel"] == "#nlp", "a message in #nlp").body

    (attachment,) = message["attachments"]
    assert attachment["title"] == "GpuWorkloadHung of nlp/b"
    assert attachment["title_link"] == "http://r"
    assert "the GPUs are allocated to nlp/b" in attachment["text"]
