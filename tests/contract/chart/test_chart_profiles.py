"""Every profile: Helm's strict lint, Kubernetes' and the monitoring schemas, and what no schema sees."""

import re

import helm_python
import kubernetes_validate
import pytest
import yaml

from tests.contract.chart import coherence, custom_resources, podsecurity, strict_yaml
from tests.contract.chart.conftest import CHART, PRESETS, PROFILES, Files, One, Render, Values, packed

OLDEST, NEWEST = "1.25", "1.37"
LEVELS = {"restricted": "restricted", "openshift-restricted": "restricted"}
OWN = {"gpu-exporter", "gpu-exporter-test"}


def test_lint_finds_nothing(values: Values) -> None:
    found = helm_python.lint(str(packed()), values, strict=True, kube_version=f"v{NEWEST}.0")

    assert [message for message in found["messages"] if message["severity"] > 1] == []
    assert found["errors"] == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_objects_fit_the_schemas(values: Values, render: Render, version: str) -> None:
    documents = render(values)

    assert documents
    for document in documents:
        if (document["apiVersion"], document["kind"]) in custom_resources.VALIDATORS:
            assert list(custom_resources.errors(document)) == []
        else:
            kubernetes_validate.validate(document, version, strict=True)


def test_objects_agree_with_each_other(values: Values, render: Render) -> None:
    assert list(coherence.errors(render(values))) == []


def test_chart_says_the_oldest_version_it_is_checked_against() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["kubeVersion"] == f">={OLDEST}.0-0"


def test_level_of_pod_security(profile: str, values: Values, render: Render, one: One) -> None:
    spec = one(render(values), "DaemonSet")["spec"]["template"]["spec"]

    reasons = [*podsecurity.above_baseline(spec), *podsecurity.above_restricted(spec)]
    assert podsecurity.level(spec) == LEVELS.get(profile, "privileged"), reasons


def test_notes_state_the_level(profile: str, values: Values, files: Files) -> None:
    notes = files(values)["gpu-exporter/templates/NOTES.txt"]

    assert f"Pod Security level of these pods: {LEVELS.get(profile, 'privileged')}\n" in notes


@pytest.mark.parametrize("preset", PRESETS)
def test_readme_states_the_level_of_a_preset(preset: str) -> None:
    row = rf"\| \[`{preset}`\]\(presets/{preset}\.yaml\) \|.*\| {LEVELS.get(preset, 'privileged')} \|"

    assert re.search(row, (CHART / "README.md").read_text())


SIDECAR: Values = {"name": "side", "image": "registry.example.com/side:1"}
NOTHING: Values = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
}
HATCHES: list[Values] = [
    {"security": {"seccomp": "Unconfined"}},
    {"security": {"seccomp": ""}},
    {"security": {"addCapabilities": ["NET_BIND_SERVICE"]}},
    {"security": {"addCapabilities": ["SYS_CHROOT"]}},
    {"security": {"addCapabilities": ["SYS_NICE"]}},
    {"security": {"runAsUser": 0}},
    {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
    {"podSecurityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "gpu.json"}}},
    {"containerSecurityContext": {"capabilities": {"add": ["SYS_PTRACE"]}}},
    {"containerSecurityContext": {"privileged": True, "allowPrivilegeEscalation": True}},
    {"containerSecurityContext": {"allowPrivilegeEscalation": True}},
    {"containerSecurityContext": {"runAsUser": 0}},
    {"containerSecurityContext": {"runAsNonRoot": False}},
    {"containerSecurityContext": {"procMount": "Unmasked"}},
    {"containerSecurityContext": {"appArmorProfile": {"type": "Unconfined"}}},
    {"podSecurityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
    {"podSecurityContext": {"seLinuxOptions": {"type": "spc_t"}}},
    {"containerSecurityContext": {"seLinuxOptions": {"type": "container_t", "level": "s0:c1,c2"}}},
    {"podSecurityContext": {"seLinuxOptions": {"role": "system_r"}}},
    {"podSecurityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}},
    {"podSecurityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}},
    {"podSpec": {"hostIPC": True}},
    {"podSpec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}},
    {"podSpec": {"securityContext": {"runAsUser": 0}}},
    {"podSpec": {"volumes": [{"name": "state", "hostPath": {"path": "/srv"}}]}},
    {"extraContainers": [SIDECAR]},
    {"extraContainers": [{**SIDECAR, "securityContext": NOTHING}]},
    {"extraContainers": [{**SIDECAR, "securityContext": {**NOTHING, "runAsUser": 0}}]},
    {"extraContainers": [{**SIDECAR, "securityContext": {**NOTHING, "capabilities": {"drop": ["KILL"]}}}]},
    {"extraContainers": [{**SIDECAR, "securityContext": {"privileged": True}}]},
    {"extraContainers": [{**SIDECAR, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    {"initContainers": [{**SIDECAR, "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]},
    {"livenessProbe": {"tcpSocket": {"port": "metrics", "host": "127.0.0.1"}}},
    {"extraVolumes": [{"name": "data", "nfs": {"server": "nas", "path": "/data"}}]},
    {"extraVolumes": [{"name": "fabric", "hostPath": {"path": "/dev/infiniband"}}]},
    {"extraVolumes": [{"name": "shared", "emptyDir": {}}]},
]


@pytest.mark.parametrize("given", HATCHES, ids=repr)
def test_notes_state_the_level_of_values_handed_on(given: Values, render: Render, files: Files, one: One) -> None:
    alone = {"attribution": {"processes": {"enabled": False}, "pods": {"enabled": False}}, **given}
    spec = one(render(alone), "DaemonSet")["spec"]["template"]["spec"]

    level = podsecurity.level(spec)
    assert f"Pod Security level of these pods: {level}\n" in files(alone)["gpu-exporter/templates/NOTES.txt"]


def test_test_pod_is_restricted(values: Values, render: Render, one: One) -> None:
    assert podsecurity.level(one(render(values), "Pod")["spec"]) == "restricted"


def test_second_render_is_identical(profile: str, values: Values, files: Files) -> None:
    first = files(values)
    with helm_python.Chart.load(str(packed())) as chart:
        second = chart.render({**values, "test": {"enabled": True}}, name="rel", namespace="mon")

    # Without a cluster the chart cannot keep the password and certificate that it made.
    made = {"gpu-exporter/templates/secret.yaml", "gpu-exporter/templates/daemonset.yaml"}
    differ = {path for path, text in second.items() if text != first[path]}
    assert differ == (made if profile == "secured" else set())


def test_no_key_is_given_twice_in_any_yaml_of_the_chart() -> None:
    for path in (*PROFILES.values(), CHART / "values.yaml", CHART / "Chart.yaml", *(CHART / "files").rglob("*.yaml")):
        assert strict_yaml.load_all(path.read_text()) or path.name == "default-values.yaml"


def test_no_profile_takes_a_gpu(values: Values, render: Render) -> None:
    for document in render(values):
        assert "nvidia.com/gpu:" not in yaml.safe_dump(document)


def test_two_releases_in_one_namespace_share_no_object(values: Values, render: Render) -> None:
    own_name = {"fullnameOverride": "", "runtimeClass": {"name": "", "create": False}, "extraObjects": []}
    first, second = (render({**values, **own_name}, name=name) for name in ("one", "two"))

    assert not {coherence.identity(each) for each in first} & {coherence.identity(each) for each in second}


def test_releases_in_a_namespace_of_a_long_name_share_no_object(render: Render) -> None:
    given = {"prometheusRule": {"enabled": True, "namespace": "monitoring"}, "attribution": {"pods": {"api": True}}}
    first, second = (render(given, name=name, namespace="n" * 63) for name in ("one", "two"))

    assert not {coherence.identity(each) for each in first} & {coherence.identity(each) for each in second}


def test_releases_of_one_name_in_two_namespaces_share_no_object(values: Values, render: Render) -> None:
    alone = {**values, "runtimeClass": {"name": "", "create": False}}
    first, second = (render(alone, namespace=namespace) for namespace in ("east", "west"))

    assert not {coherence.identity(each) for each in first} & {coherence.identity(each) for each in second}


@pytest.mark.parametrize("name", ["1234", "gpus.v2", "9" + "a" * 50 + ".b", "a.gpu-exporter"])
def test_release_of_any_name_has_a_service_that_every_version_takes(name: str, render: Render, one: One) -> None:
    documents = render(name=name)

    # Before 1.36 such a name begins with a letter; of a release it may have dots.
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", one(documents, "Service")["metadata"]["name"])
    assert list(coherence.errors(documents)) == []


def test_selector_never_changes(values: Values, render: Render, one: One) -> None:
    labels = {"podLabels": {"app.kubernetes.io/name": "x"}, "commonLabels": {"app.kubernetes.io/instance": "y"}}
    selectors = [one(render(given), "DaemonSet")["spec"]["selector"] for given in ({}, values, {**values, **labels})]

    assert (
        selectors
        == [{"matchLabels": {"app.kubernetes.io/name": "gpu-exporter", "app.kubernetes.io/instance": "rel"}}] * 3
    )


def test_test_pod_is_no_pod_of_the_daemonset(values: Values, render: Render, one: One) -> None:
    documents = render(values)
    selector = one(documents, "DaemonSet")["spec"]["selector"]["matchLabels"]

    assert not selector.items() <= one(documents, "Pod")["metadata"]["labels"].items()


@pytest.mark.parametrize("name", ["NODE_NAME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"])
def test_variable_of_the_user_takes_the_place_of_the_charts(name: str, render: Render, one: One) -> None:
    own = {"name": name, "value": "mine"}
    container = one(render({"extraEnv": [own]}), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]

    # A server-side apply, as Helm 4 and Argo CD do, refuses a list with a name twice.
    assert [each for each in container["env"] if each["name"] == name] == [own]
