"""The privileges the chart asks for, and TLS and basic auth as the exporter itself reads them."""

import base64
import ssl
from pathlib import Path
from typing import Any

import bcrypt
import kubernetes_validate
import pytest
import yaml

from exporter.attribution.kubernetes.projects import KINDS
from exporter.web import settings
from tests.contract.chart import podsecurity
from tests.contract.chart.conftest import PRESETS, Documents, Files, One, Render, Values
from tests.contract.chart.test_chart_profiles import NEWEST

PASSWORD = {"web": {"basicAuth": {"enabled": True}}}
SECURED = {"web": {"tls": {"enabled": True}, "basicAuth": {"enabled": True}}, "serviceMonitor": {"enabled": True}}


def pod_spec(documents: Documents, one: One) -> Any:
    return one(documents, "DaemonSet")["spec"]["template"]["spec"]


def policy_of(documents: Documents, labels: Values) -> Any:
    """Return the spec of the only network policy that selects pods with these labels."""
    specs = [each["spec"] for each in documents if each["kind"] == "NetworkPolicy"]
    (found,) = [each for each in specs if each["podSelector"]["matchLabels"].items() <= labels.items()]
    return found


def exporters_policy(documents: Documents, one: One) -> Any:
    return policy_of(documents, one(documents, "DaemonSet")["spec"]["template"]["metadata"]["labels"])


def test_default_is_root_without_any_privilege(render: Render, one: One) -> None:
    spec = pod_spec(render(), one)
    (container,) = spec["containers"]

    assert container["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert spec["automountServiceAccountToken"] is True
    assert sorted(podsecurity.above_baseline(spec)) == [
        "hostPID",
        "volume cgroups: hostPath",
        "volume pod-logs: hostPath",
        "volume pod-resources: hostPath",
        "volume state: hostPath",
    ]


def test_every_host_path_but_its_own_is_read_only(values: Values, render: Render, one: One) -> None:
    spec = pod_spec(render(values), one)
    host = {volume["name"] for volume in spec.get("volumes", ()) if "hostPath" in volume}
    mounts = [mount for mount in spec["containers"][0].get("volumeMounts", ()) if mount["name"] in host]

    assert {mount["name"] for mount in mounts if not mount.get("readOnly")} <= {"state", "progress-socket"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {"hostPath": {"path": "/var/lib/gpu-exporter", "type": "DirectoryOrCreate"}}),
        ({"state": {"hostPath": "/data/gpu"}}, {"hostPath": {"path": "/data/gpu", "type": "DirectoryOrCreate"}}),
        ({"state": {"hostPath": ""}}, {"emptyDir": {}}),
        ({"attribution": {"pods": {"enabled": False}}}, {"emptyDir": {}}),
    ],
)
def test_faults_are_kept_where_the_process_can_write(given: Values, kept: Any, render: Render, one: One) -> None:
    spec = pod_spec(render(given), one)
    (volume,) = [each for each in spec["volumes"] if each["name"] == "state"]
    (container,) = spec["containers"]

    assert volume == {"name": "state", **kept}
    assert {"name": "state", "mountPath": "/var/lib/gpu-exporter"} in container["volumeMounts"]
    assert "--state.dir=/var/lib/gpu-exporter" in container["args"]


def test_least_rights_in_the_cluster(values: Values, render: Render) -> None:
    rights = [rule for each in render(values) if each["kind"] in {"Role", "ClusterRole"} for rule in each["rules"]]
    token = pod_spec(render(values), lambda found, kind: next(d for d in found if d["kind"] == kind))

    asked = values.get("attribution", {}).get("pods", {})
    asks = asked.get("enabled", True) and asked.get("api", True)
    wanted = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}] if asks else []
    slices = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]}
    claims = {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]}
    node = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    owners = [{"apiGroups": [g], "resources": [*kinds.values()], "verbs": ["get"]} for g, kinds in KINDS.items()]
    read = [rule for rule in rights if not {"use", "patch", "create"} & {*rule["verbs"]}]
    assert read == (wanted and [*wanted, node, slices, claims, *owners])
    assert token["automountServiceAccountToken"] is bool(wanted)
    verbs = {verb for rule in rights for verb in rule["verbs"]}
    assert verbs <= {"list", "watch", "get", "use", *(("patch", "create") if "nodeHealth" in values else ())}


def test_one_value_takes_token_role_and_option(render: Render, files: Files, one: One) -> None:
    """Without it names are inferred; the notes name the value."""
    made = render({"attribution": {"pods": {"api": False}}})

    assert not {each["kind"] for each in made} & {"ClusterRole", "ClusterRoleBinding"}
    assert pod_spec(made, one)["automountServiceAccountToken"] is False
    assert "--attribution.kubernetes.api" not in pod_spec(made, one)["containers"][0]["args"]
    assert "--attribution.kubernetes.api" in pod_spec(render(), one)["containers"][0]["args"]
    assert "attribution.pods.api=false" in files()["gpu-exporter/templates/NOTES.txt"]


def test_network_policy_leaves_the_api_server_in_reach(render: Render, one: One) -> None:
    def egress(**given: Any) -> Any:
        made = render({"networkPolicy": {"enabled": True, **given.pop("policy", {})}, **given})
        return exporters_policy(made, one).get("egress")

    api_ports = [{"port": port, "protocol": "TCP"} for port in (443, 6443, 16443)]  # the last is MicroK8s'
    assert egress() == [{"ports": api_ports}]
    assert egress(policy={"egress": [{}]}) == [{}]
    assert egress(attribution={"pods": {"api": False}}) is None


@pytest.mark.parametrize(
    ("given", "option", "right"),
    [
        ({"condition": True}, "--kubernetes.node-health=condition", (["nodes/status"], ["patch"])),
        ({"taint": "NoSchedule"}, "--kubernetes.node-health=taint:NoSchedule", (["nodes"], ["patch"])),
        ({"events": True}, "--kubernetes.node-health=events", (["events"], ["create"])),
    ],
)
def test_each_part_of_the_nodes_health_brings_its_own_right_alone(
    given: Values, option: str, right: tuple[list[str], list[str]], render: Render, one: One
) -> None:
    def rights(made: Documents) -> list[tuple[list[str], list[str]]]:
        return [(rule["resources"], rule["verbs"]) for rule in one(made, "ClusterRole")["rules"]]

    made = render({"nodeHealth": given, "tolerations": [{"key": "own"}]})
    assert [each for each in rights(made) if each not in rights(render())] == [right]
    spec = pod_spec(made, one)
    assert option in spec["containers"][0]["args"]
    ours = {"key": "gpu-exporter/gpu-unhealthy", "operator": "Exists"}
    assert spec["tolerations"] == [{"key": "own"}, *([ours] if "taint" in given else [])]
    assert not any("--kubernetes." in each for each in pod_spec(render(), one)["containers"][0]["args"])
    assert "ValidatingAdmissionPolicy" not in {each["kind"] for each in made}


def test_admission_policy_is_about_the_exporters_account_alone(render: Render, one: One) -> None:
    made = render({"nodeHealth": {"condition": True, "admissionPolicy": True}})
    policy = one(made, "ValidatingAdmissionPolicy")

    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == ("request.userInfo.username == 'system:serviceaccount:mon:rel-gpu-exporter'")
    assert one(render({"nodeHealth": {"admissionPolicy": True}, "rbac": {"create": False}}), policy["kind"]) == policy
    binding = one(made, "ValidatingAdmissionPolicyBinding")
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    for each in (policy, binding):
        kubernetes_validate.validate(each, NEWEST, strict=True)


def test_rights_on_owners_can_be_left_out(render: Render) -> None:
    made = render({"rbac": {"owners": False}})
    rights = [rule for each in made if each["kind"] == "ClusterRole" for rule in each["rules"]]

    assert [rule["resources"] for rule in rights] == [["pods"], ["nodes"], ["resourceslices"], ["resourceclaims"]]


def test_networks_of_jobs_are_entered_with_two_capabilities_and_never_privileged(render: Render, one: One) -> None:
    made = render({"nccl": {"ras": {"enabled": True}}, "openshift": {"scc": True}})
    container = pod_spec(made, one)["containers"][0]
    allowed = one(made, "SecurityContextConstraints")

    assert "--nccl.ras" in container["args"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_PTRACE"]}
    assert not container["securityContext"].get("privileged")
    assert allowed["allowedCapabilities"] == ["SYS_ADMIN", "SYS_PTRACE"]
    assert allowed["allowPrivilegedContainer"] is False


def test_jobs_on_the_nodes_network_are_asked_without_any_capability(render: Render, one: One) -> None:
    spec = pod_spec(render({"hostNetwork": True, "nccl": {"ras": {"enabled": True, "enterNetworks": False}}}), one)
    (container,) = spec["containers"]

    assert "--nccl.ras" in container["args"]
    assert spec["hostNetwork"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["allowPrivilegeEscalation"] is False


def test_without_the_hosts_process_ids_none_are_read(render: Render, one: One) -> None:
    container = pod_spec(render({"attribution": {"processes": {"enabled": False}}}), one)["containers"][0]

    assert "--collectors.disable=processes" in container["args"]
    assert "--path.cgroupfs=/host/sys/fs/cgroup" not in container["args"]


@pytest.mark.parametrize("disabled", [["nvlink", "ecc"], "nvlink,ecc"])
def test_collectors_that_config_disables_stay_disabled_without_process_ids(
    render: Render, one: One, disabled: object
) -> None:
    values = {"attribution": {"processes": {"enabled": False}}, "config": {"collectors": {"disable": disabled}}}
    container = pod_spec(render(values), one)["containers"][0]

    assert "--collectors.disable=processes,nvlink,ecc" in container["args"]


@pytest.fixture
def web(render: Render, one: One, tmp_path: Path) -> Any:
    """The files the pod would see, as the chart makes them."""
    secret = one(render(SECURED), "Secret")
    for name, value in secret["data"].items():
        (tmp_path / name).write_bytes(base64.b64decode(value))
    return tmp_path


def test_exporter_reads_what_the_chart_makes(web: Path) -> None:
    config = settings.load(web / "web-config.yaml")

    assert bcrypt.checkpw((web / "password").read_bytes(), config.users["prometheus"].encode())
    context = ssl.create_default_context(cafile=str(web / "ca.crt"))
    assert config.tls
    context.load_cert_chain(config.tls.cert, config.tls.key)


def test_given_password_and_hash_are_kept(render: Render, one: One) -> None:
    given = {"enabled": True, "password": "correct horse", "passwordHash": "$2y$04$" + "a" * 53}
    data = one(render({"web": {"basicAuth": given}}), "Secret")["data"]

    assert base64.b64decode(data["password"]) == b"correct horse"
    assert yaml.safe_load(base64.b64decode(data["web-config.yaml"])) == {
        "basic_auth_users": {"prometheus": given["passwordHash"]}
    }


def test_new_password_restarts_the_pods(render: Render, one: One) -> None:
    def checksum(password: str) -> Any:
        given = {"enabled": True, "password": password, "passwordHash": "$2y$04$" + "a" * 53}
        template = one(render({"web": {"basicAuth": given}}), "DaemonSet")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/web"]

    assert checksum("one") == checksum("one")
    assert checksum("one") != checksum("two")


def test_new_configuration_restarts_the_pods(render: Render, one: One) -> None:
    def checksum(interval: str) -> Any:
        template = one(render({"config": {"sample": {"interval": interval}}}), "DaemonSet")["spec"]["template"]
        return template["metadata"]["annotations"]["checksum/config"]

    assert checksum("1s") != checksum("2s")


@pytest.mark.parametrize(
    ("web_values", "handler"),
    [
        ({}, {"httpGet": {"path": "/-/healthy", "port": "metrics", "scheme": "HTTP"}}),
        ({"tls": {"enabled": True}}, {"httpGet": {"path": "/-/healthy", "port": "metrics", "scheme": "HTTPS"}}),
        ({"basicAuth": {"enabled": True}}, {"tcpSocket": {"port": "metrics"}}),
    ],
)
def test_probes_work_with_the_web_configuration(web_values: Values, handler: Values, render: Render, one: One) -> None:
    probe = pod_spec(render({"web": web_values}), one)["containers"][0]["livenessProbe"]

    assert handler.items() <= probe.items()


def test_own_probe_replaces_the_handler_and_null_drops_the_probe(render: Render, one: One) -> None:
    container = pod_spec(render({"livenessProbe": {"exec": {"command": ["true"]}}, "readinessProbe": None}), one)[
        "containers"
    ][0]

    assert "httpGet" not in container["livenessProbe"]
    assert "readinessProbe" not in container


def test_monitor_trusts_the_chart_s_authority_and_sends_its_password(render: Render, one: One) -> None:
    documents = render(SECURED)
    (endpoint,) = one(documents, "ServiceMonitor")["spec"]["endpoints"]
    secret = one(documents, "Secret")

    assert endpoint["scheme"] == "https"
    assert endpoint["tlsConfig"]["serverName"] == "rel-gpu-exporter.mon.svc"
    for reference in (endpoint["tlsConfig"]["ca"]["secret"], *endpoint["basicAuth"].values()):
        assert reference["name"] == secret["metadata"]["name"]
        assert reference["key"] in secret["data"]


def test_network_policy_lets_out_what_is_named_and_nothing_else(render: Render, one: One) -> None:
    named = [{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}]}]
    none, some = (
        exporters_policy(
            render({"networkPolicy": {"enabled": True, "egress": egress}, "attribution": {"pods": {"api": False}}}), one
        )
        for egress in ([], named)
    )

    # An empty list is stored as none, so that each apply would be a change again.
    assert (none["policyTypes"], "egress" in none) == (["Ingress", "Egress"], False)
    assert some["egress"] == named


def test_network_policy_lets_the_pod_of_the_test_in(render: Render, one: One) -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    documents = render({"networkPolicy": {"enabled": True, "from": [prometheus]}})
    pod = one(documents, "Pod")
    (rule,) = exporters_policy(documents, one)["ingress"]
    first, second = rule["from"]

    assert first == prometheus
    assert second["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert {each["metadata"]["namespace"] for each in documents if each["kind"] == "NetworkPolicy"} == {"mon"}
    assert pod["metadata"]["namespace"] == "mon"
    assert "from" not in exporters_policy(render({"networkPolicy": {"enabled": True}}), one)["ingress"][0]


def test_network_policy_lets_the_pod_of_the_test_out(render: Render, one: One) -> None:
    """It finds the exporters and Prometheus by name, though another policy of the namespace denies all."""
    documents = render({"networkPolicy": {"enabled": True}})
    policy = policy_of(documents, one(documents, "Pod")["metadata"]["labels"])

    assert policy["policyTypes"] == ["Egress"]
    assert policy["egress"] == [{}]


@pytest.mark.parametrize(("given", "user"), [("auto", 65534), ("cluster", None)])
def test_pod_of_the_test_leaves_its_user_to_a_cluster_that_assigns_users(
    given: str, user: int | None, render: Render, one: One
) -> None:
    attribution = {"pods": {"enabled": False}, "processes": {"enabled": False}}
    pod = one(render({"attribution": attribution, "security": {"runAsUser": given}}), "Pod")

    assert pod["spec"]["securityContext"].get("runAsUser") == user
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("given", ["openshift", "openshift-restricted"])
def test_openshift_assigns_the_user_of_each_pod_without_constraints_of_its_own(given: str, render: Render) -> None:
    """The constraints restricted-v2 refuse a number that is not of the namespace's range."""
    documents = render({**yaml.safe_load(PRESETS[given].read_text()), "accounting": {"enabled": True}, **PASSWORD})
    pods = [each["spec"] for each in documents if each["kind"] == "Pod"]
    pods += [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "Deployment"]

    assert len(pods) == 2
    for spec in pods:
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@pytest.mark.parametrize("given", [{"hostNetwork": True}, {"hostPort": 9836}])
def test_openshift_s_constraints_allow_the_port_of_the_node(given: Values, render: Render, one: One) -> None:
    constraints = [
        one(render({"openshift": {"scc": True}, **each}), "SecurityContextConstraints") for each in ({}, given)
    ]

    assert [each["allowHostPorts"] for each in constraints] == [False, True]


def test_openshift_s_constraints_allow_the_volumes_that_are_added(render: Render, one: One) -> None:
    def allowed(*volumes: Values) -> Values:
        alone = {"processes": {"enabled": False}, "pods": {"enabled": False}}
        documents = render({"openshift": {"scc": True}, "attribution": alone, "extraVolumes": [*volumes]})
        return one(documents, "SecurityContextConstraints")

    host, csi = {"name": "fabric", "hostPath": {"path": "/dev"}}, {"name": "vault", "csi": {"driver": "a.b"}}
    assert allowed()["allowHostDirVolumePlugin"] is False
    assert "csi" not in allowed()["volumes"]
    assert allowed(host)["allowHostDirVolumePlugin"] is True
    assert "csi" in allowed(csi)["volumes"]


@pytest.mark.parametrize(
    ("seccomp", "named"), [("RuntimeDefault", "runtime/default"), ("Unconfined", "unconfined"), ("", "*")]
)
def test_openshift_s_constraints_allow_the_profile_of_the_pods_by_its_name_there(
    seccomp: str, named: str, render: Render, one: One
) -> None:
    made = render({"openshift": {"scc": True}, "security": {"seccomp": seccomp}})

    assert one(made, "SecurityContextConstraints")["seccompProfiles"] == [named]


@pytest.mark.parametrize("user", [1000, 1000680000, 2147483647])
def test_user_of_any_number_is_that_user(user: int, render: Render, one: One) -> None:
    given = {"security": {"runAsUser": user}, "attribution": {"pods": {"enabled": False}}}
    (container,) = pod_spec(render(given), one)["containers"]

    assert (container["securityContext"]["runAsUser"], container["securityContext"]["runAsGroup"]) == (user, user)


@pytest.mark.parametrize("basic_auth", [False, True])
def test_path_of_a_probe_keeps_its_port(*, basic_auth: bool, render: Render, one: One) -> None:
    probe = {"httpGet": {"path": "/-/ready"}}
    given = {"livenessProbe": probe, "web": {"basicAuth": {"enabled": basic_auth}}}
    (container,) = pod_spec(render(given), one)["containers"]

    assert container["livenessProbe"]["httpGet"] == {"path": "/-/ready", "port": "metrics", "scheme": "HTTP"}
    assert "tcpSocket" not in container["livenessProbe"]
