"""The chart on a real cluster, from install to uninstall, in this order: `make e2e-kubernetes`."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import prometheus, release, settings
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.conftest import GPUS
from tests.e2e.kubernetes.release import (
    CHART,
    NAMESPACE,
    PROFILES,
    RELEASE,
    SELECTOR,
    UNKNOWN_HERE,
    deploy,
    exporter,
    metrics,
    samples,
    secret,
)
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

VALUES: dict[str, Any] = {
    "image": {"registry": "localhost", "tag": "e2e"},
    "runtimeClass": {"name": "nvidia", "create": True},
    "terminationGracePeriodSeconds": 600,
}


@pytest.fixture(autouse=True)
def told(request: pytest.FixtureRequest, cluster: Cluster) -> Any:
    """Say what the cluster knows when a test fails."""
    failed = request.session.testsfailed
    yield
    if request.session.testsfailed > failed:
        print(cluster.describe())  # noqa: T201 - pytest shows it with the failure


@pytest.fixture(scope="session")
def values(cluster: Cluster) -> Path:
    file = cluster.home / "values.yaml"
    file.write_text(yaml.safe_dump({**VALUES, **release.places(cluster)}))
    return file


def test_namespace_at_baseline_is_refused_at_once(cluster: Cluster, values: Path) -> None:
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": label}})
    said = release.refused(cluster, values)

    assert f"namespace {NAMESPACE} enforces Pod Security level baseline" in said
    assert "hostPID" in said


def test_install_waits_until_every_pod_is_ready(cluster: Cluster, values: Path) -> None:
    cluster.kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged", "--overwrite")
    prometheus.start_operator(cluster)
    deploy(cluster, values)
    status = cluster.get("daemonset", RELEASE, "-n", NAMESPACE)["status"]

    assert (status["desiredNumberScheduled"], status["numberReady"]) == (1, 1)


def test_objects_have_the_label_by_which_prometheus_selects(cluster: Cluster) -> None:
    found = cluster.get("servicemonitors,prometheusrules", "-n", NAMESPACE)["items"]

    assert {each["kind"] for each in found} == {"ServiceMonitor", "PrometheusRule"}
    assert {each["metadata"]["labels"].get("release") for each in found} == {"stack"}
    assert "read by Prometheus monitoring/e2e" in cluster.helm("get", "notes", RELEASE, "-n", NAMESPACE)


def test_process_is_root_without_any_capability(cluster: Cluster) -> None:
    name = exporter(cluster)["metadata"]["name"]
    show = "print(open('/proc/self/status').read())"
    status = cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", show)
    read = dict(re.findall(r"^(\w+):\s+(.*)$", status, flags=re.MULTILINE))

    assert read["Uid"].split()[0] == "0"
    assert {read[each] for each in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (read["NoNewPrivs"], read["Seccomp"]) == ("1", "2")


def test_driver_is_found_through_the_runtime_class(cluster: Cluster) -> None:
    text = metrics(cluster)

    assert sorted(labels["uuid"] for labels, _ in samples(text, "gpu_info")) == sorted(GPUS)
    assert "gpu_exporter_driver_error{" not in text


@pytest.mark.usefixtures("workloads")
def test_gpus_are_attributed_to_the_pods_that_hold_them(cluster: Cluster) -> None:
    def attributed() -> dict[tuple[str, str], float]:
        found = samples(metrics(cluster), "gpu_allocation_ratio")
        shares = {(labels["pod"], labels["uuid"]): value for labels, value in found if labels["namespace"] == "team-a"}
        if len(shares) < 4:
            raise NotYetError(found)
        return shares

    shares = wait_for(attributed, 60)
    whole = {uuid: share for (pod, uuid), share in shares.items() if pod == "train"}
    assert len(whole) == 2
    assert GPUS[2] not in whole
    assert set(whole.values()) == {1.0}
    assert {pod: uuid for pod, uuid in shares if pod != "train"} == {"first": GPUS[2], "second": GPUS[2]}
    assert shares["first", GPUS[2]] + shares["second", GPUS[2]] == pytest.approx(1.0)


def shown_with_processes(cluster: Cluster, pods: set[str]) -> dict[str, set[int]]:
    """Process ids by pod, once these pods have both processes and host usage."""

    def shown() -> dict[str, set[int]]:
        text = metrics(cluster)
        found = samples(text, "gpu_process_memory_bytes")
        used = {labels["pod"] for labels, _ in samples(text, "gpu_workload_cpu_seconds_total")}
        if not pods <= used & {labels["pod"] for labels, _ in found}:
            raise NotYetError((found, used))
        return {pod: {int(labels["pid"]) for labels, _ in found if labels["pod"] == pod} for pod in pods}

    return wait_for(shown, 60)


def test_processes_and_host_usage_belong_to_the_pod_on_a_shared_gpu_too(
    cluster: Cluster, workloads: dict[str, list[int]]
) -> None:
    # The kubelet's socket names both pods of the GPU, not whose a process is: its log folders do.
    assert shown_with_processes(cluster, set(workloads)) == {pod: {pids[0]} for pod, pids in workloads.items()}


def test_api_server_tells_the_labels_of_pods(cluster: Cluster, values: Path, workloads: dict[str, list[int]]) -> None:
    given = yaml.safe_load(values.read_text())
    given["attribution"]["pods"] |= {"labels": ["team"]}
    values.write_text(yaml.safe_dump(given))
    deploy(cluster, values)

    assert shown_with_processes(cluster, set(workloads)) == {pod: {pids[0]} for pod, pids in workloads.items()}

    def labelled() -> dict[str, str]:
        rows = [labels for labels, _ in samples(metrics(cluster), "gpu_workload_info") if labels["pod"] in workloads]
        if not all(row["label_team"] for row in rows):  # a busy API server answers after the kubelet
            raise NotYetError(rows)
        return {row["pod"]: row["label_team"] for row in rows}

    assert wait_for(labelled, 60) == dict.fromkeys(workloads, "vision")


@pytest.mark.usefixtures("workloads")
def test_held_gpu_with_no_owner_is_free(cluster: Cluster) -> None:
    def shown() -> tuple[set[str], set[str]]:
        text = metrics(cluster)
        times = samples(text, "gpu_state_seconds_total")
        if not sum(value for _, value in times):
            raise NotYetError(times)  # the first cycle of a new pod has no seconds yet
        free = {labels["uuid"] for labels, value in times if labels["state"] == "free" and value > 0}
        return {labels["uuid"] for labels, _ in samples(text, "gpu_allocation_ratio")}, free

    allocated, free = wait_for(shown, 60)

    assert set(GPUS) - allocated <= free


@pytest.mark.usefixtures("workloads")
def test_prometheus_scrapes_what_the_operator_discovers(cluster: Cluster) -> None:
    prometheus.start(cluster, ["serviceMonitor/gpu-exporter/gpu-exporter/0", "rule_files:\n- "])

    (target,) = prometheus.query(cluster, 'up{job="gpu-exporter"} == 1')
    assert target["metric"]["instance"] == target["metric"]["node"] == settings.NODE
    assert not {"pod", "namespace", "container"} & target["metric"].keys()


@pytest.mark.usefixtures("workloads")
def test_pod_means_the_user_of_the_gpu(cluster: Cluster) -> None:
    shares = prometheus.query(cluster, 'gpu_allocation_ratio{workload_namespace="team-a"}')
    power = prometheus.query(cluster, "gpu_power_watts")

    assert {each["metric"]["pod"] for each in shares} == {"train", "first", "second"}
    assert not {"pod", "namespace", "container"} & {label for each in power for label in each["metric"]}
    names = json.loads(prometheus.ask(cluster, "/api/v1/labels"))["data"]
    assert [name for name in names if name.startswith("exported_")] == []


_SLOWEST_SECONDS = 300
"""Groups start spread over their interval. The accounting's is 15 minutes: it is not waited for."""


def test_rules_are_loaded_and_evaluate(cluster: Cluster) -> None:
    def evaluated() -> list[dict[str, Any]]:
        groups = json.loads(prometheus.ask(cluster, "/api/v1/rules"))["data"]["groups"]
        rules = [rule for group in groups if group["interval"] <= _SLOWEST_SECONDS for rule in group["rules"]]
        if not rules or any(rule["health"] == "unknown" for rule in rules):
            raise NotYetError("not evaluated yet")
        return rules

    rules = wait_for(evaluated, _SLOWEST_SECONDS + 60)
    assert {rule["health"] for rule in rules} == {"ok"}
    assert {"alerting", "recording"} == {rule["type"] for rule in rules}


def with_test(cluster: Cluster) -> tuple[str, str]:
    """Return the values of the test's pod. No DNS here: the pod gets the service's name by its hosts file."""
    alias = {"ip": exporter(cluster)["status"]["podIP"], "hostnames": [f"{RELEASE}.{NAMESPACE}.svc"]}
    made = {"podSpec": {"hostAliases": [alias]}, "prometheusUrl": prometheus.url(cluster)}
    return "--set-json", f"test={json.dumps(made)}"


def test_helm_test_passes_where_prometheus_scrapes(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values, *with_test(cluster))

    said = cluster.helm("test", RELEASE, "-n", NAMESPACE, "--timeout", "90s")

    assert re.search(r"Phase:\s+Succeeded", said)


def test_helm_test_fails_where_the_monitor_is_not_selected(cluster: Cluster, values: Path) -> None:
    deploy(cluster, values, "--set", "serviceMonitor.labels.release=another", *with_test(cluster))
    prometheus.start(cluster, [r"(?s)\A(?!.*serviceMonitor/)"])
    with pytest.raises(subprocess.CalledProcessError) as failed:
        cluster.helm("test", RELEASE, "-n", NAMESPACE, "--timeout", "200s")
    notes = cluster.helm("get", "notes", RELEASE, "-n", NAMESPACE)

    assert "no target of serviceMonitor/gpu-exporter/gpu-exporter/0" in f"{failed.value.stdout}{failed.value.stderr}"
    assert "not selected: label release=stack is missing" in notes


@pytest.mark.parametrize("profile", PROFILES)
def test_api_server_accepts_the_profile_and_names_its_level(cluster: Cluster, profile: str) -> None:
    own = {"fullnameOverride": "dry", "priorityClassName": ""}
    (cluster.home / "own.yaml").write_text(yaml.safe_dump(own))
    files = ("-f", str(PROFILES[profile]), "-f", str(cluster.home / "own.yaml"))
    text = cluster.helm("template", "dry", CHART, "-n", "default", *files, "--skip-tests")
    objects = [each for each in yaml.safe_load_all(text) if each and each["kind"] not in UNKNOWN_HERE]
    for each in objects:
        if each["metadata"].get("namespace") == "monitoring":
            each["metadata"]["namespace"] = "default"
        if each["kind"] == "RuntimeClass":
            each["metadata"]["name"] = "dry"
    given = "\n---\n".join(json.dumps(each) for each in objects)
    level = "restricted" if profile in {"restricted", "openshift-restricted"} else "privileged"

    warned: dict[str, bool] = {}
    for asked in ("baseline", "restricted"):
        cluster.kubectl("label", "namespace", "default", f"pod-security.kubernetes.io/warn={asked}", "--overwrite")
        done = subprocess.run(
            ["kubectl", "create", "--dry-run=server", "-f", "-"],
            input=given, capture_output=True, text=True, env=cluster.environment, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        warned[asked] = "would violate PodSecurity" in done.stderr
    assert warned == dict.fromkeys(warned, level == "privileged")


SECURED = ("--set", "web.tls.enabled=true", "--set", "web.basicAuth.enabled=true")


def test_upgrade_to_tls_and_basic_auth_keeps_scraping(cluster: Cluster, values: Path) -> None:
    before = exporter(cluster)["metadata"]["uid"]
    deploy(cluster, values, *SECURED)
    prometheus.start(cluster, ["scheme: https", "username: prometheus"])

    assert exporter(cluster)["metadata"]["uid"] != before
    password = base64.b64decode(secret(cluster)["password"]).decode()
    assert password
    assert prometheus.query(cluster, 'up{job="gpu-exporter"} == 1')


def test_second_upgrade_keeps_password_certificate_and_pod(cluster: Cluster, values: Path) -> None:
    before, pod = secret(cluster), exporter(cluster)["metadata"]["uid"]
    deploy(cluster, values, *SECURED)

    assert secret(cluster) == before
    assert exporter(cluster)["metadata"]["uid"] == pod


def test_upgrade_that_reuses_values_keeps_everything(cluster: Cluster) -> None:
    before, pod = secret(cluster), exporter(cluster)["metadata"]["uid"]
    cluster.helm("upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values", "--wait", "--timeout", "120s")

    assert secret(cluster) == before
    assert exporter(cluster)["metadata"]["uid"] == pod
    assert "madeWeb" not in cluster.helm("get", "values", RELEASE, "-n", NAMESPACE, "--all")


def test_rollback_goes_back_to_plain_http(cluster: Cluster) -> None:
    cluster.helm("rollback", RELEASE, "1", "-n", NAMESPACE, "--wait", "--timeout", "120s")

    def plain() -> str:
        return metrics(cluster)

    assert "gpu_exporter_build_info{" in wait_for(plain, 60)
    assert "secret" not in cluster.kubectl("get", "secrets", "-n", NAMESPACE, "-l", SELECTOR, "-o", "name")


def test_pod_ends_by_sigterm_long_before_its_grace_period(cluster: Cluster) -> None:
    name = exporter(cluster)["metadata"]["name"]
    cluster.kubectl("delete", "pod", "-n", NAMESPACE, name, "--wait=false")

    def gone() -> None:
        if cluster.kubectl("get", "pod", "-n", NAMESPACE, name, "--ignore-not-found", "-o", "name"):
            raise NotYetError(name)

    wait_for(gone, 60)  # of 600


def test_uninstall_leaves_nothing(cluster: Cluster) -> None:
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait", "--timeout", "90s")
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))

    def nothing() -> None:
        left = cluster.kubectl("get", listed, "-A", "-l", SELECTOR, "-o", "name", "--ignore-not-found").split()
        if left:
            raise NotYetError(left)

    wait_for(nothing, 60)
    assert "helm.release" not in cluster.kubectl("get", "secrets", "-n", NAMESPACE, "-o", "name")
