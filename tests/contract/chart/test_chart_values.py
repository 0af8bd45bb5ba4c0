"""What the chart refuses: values the schema does not know, and combinations that cannot work."""

import helm_python
import pytest

from tests.contract.chart.conftest import Files, One, Render, Values

POD_NEEDS_ROOT = "attribution.pods.enabled needs uid 0"

UNKNOWN = [
    ({"prot": 1}, "additional properties 'prot' not allowed"),
    ({"attribution": {"pod": {}}}, "at '/attribution'"),
    ({"port": "9836"}, "at '/port'"),
    ({"port": 70000}, "at '/port'"),
    ({"image": {"pullPolicy": "Sometimes"}}, "at '/image/pullPolicy'"),
    ({"image": {"digest": "sha256:abc"}}, "at '/image/digest'"),
    ({"attribution": {"pods": {"enabled": "yes"}}}, "at '/attribution/pods/enabled'"),
    ({"attribution": {"pods": {"kubeletDir": "var"}}}, "at '/attribution/pods/kubeletDir'"),
    ({"attribution": {"slurm": {"mode": "maybe"}}}, "at '/attribution/slurm/mode'"),
    ({"attribution": {"slurm": {"mode": True}}}, "at '/attribution/slurm/mode'"),
    ({"config": {"sample": {"pace": "1s"}}}, "at '/config/sample'"),
    ({"config": {"log": {"level": "loud"}}}, "at '/config/log/level'"),
    ({"config": {"web": {"telemetry-path": "/x"}}}, "at '/config/web'"),
    ({"extraArgs": ["serve"]}, "at '/extraArgs/0'"),
    ({"extraEnv": {"A": "b"}}, "at '/extraEnv'"),
    ({"web": {"telemetryPath": "metrics"}}, "at '/web/telemetryPath'"),
    ({"web": {"basicAuth": {"passwordHash": "plain"}}}, "at '/web/basicAuth/passwordHash'"),
    ({"security": {"runAsUser": "root"}}, "at '/security/runAsUser'"),
    ({"security": {"addCapabilities": ["CAP-SYS"]}}, "at '/security/addCapabilities/0'"),
    ({"security": {"seccomp": "none"}}, "at '/security/seccomp'"),
    ({"service": {"type": "LoadBalancer"}}, "at '/service/type'"),
    ({"serviceMonitor": {"interval": "15"}}, "at '/serviceMonitor/interval'"),
    ({"serviceMonitor": {"labels": {"release": 1}}}, "at '/serviceMonitor/labels/release'"),
    ({"prometheusRule": {"alerts": {"rules": {"GpuHot": {}}}}}, "at '/prometheusRule/alerts/rules'"),
    ({"prometheusRule": {"alerts": {"rules": {"GpuFanFailed": {"hot": "70"}}}}}, "rules/GpuFanFailed/hot'"),
    ({"prometheusRule": {"alerts": {"rules": {"GpuFanFailed": {"severity": "high"}}}}}, "GpuFanFailed/severity'"),
    ({"podLabels": {"a": 1}}, "at '/podLabels/a'"),
]

IMPOSSIBLE = [
    ({"security": {"runAsUser": 65534}}, POD_NEEDS_ROOT),
    ({"security": {"runAsUser": "cluster"}}, POD_NEEDS_ROOT),
    ({"podSecurityContext": {"runAsNonRoot": True}}, POD_NEEDS_ROOT),
    ({"containerSecurityContext": {"runAsNonRoot": True}}, POD_NEEDS_ROOT),
    ({"attribution": {"pods": {"enabled": False, "api": True}}}, "attribution.pods.api needs"),
    ({"attribution": {"pods": {"labels": ["team"]}}}, "attribution.pods.labels needs"),
    ({"nvidia": {"migMonitorDevices": "all"}}, "nvidia.migMonitorDevices needs"),
    (
        {
            "security": {"addCapabilities": ["SYS_ADMIN"]},
            "containerSecurityContext": {"allowPrivilegeEscalation": False},
        },
        "allowPrivilegeEscalation=false cannot be had",
    ),
    ({"runtimeClass": {"create": True}}, "runtimeClass.create needs"),
    ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, "resources.limits must not ask for nvidia.com/gpu"),
    ({"resources": {"requests": {"nvidia.com/mig-1g.10gb": 1}}}, "resources.requests must not ask for nvidia.com/mig"),
    ({"web": {"existingSecret": "x"}}, "web.existingSecret needs"),
    (
        {"web": {"existingSecret": "x", "tls": {"enabled": True, "existingSecret": "y"}}},
        "web.existingSecret holds the whole",
    ),
    (
        {"web": {"basicAuth": {"enabled": True, "passwordHash": "$2y$10$" + "a" * 53}}},
        "web.basicAuth.passwordHash needs",
    ),
    ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "would scrape everything twice"),
    ({"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}, "serviceMonitor.enabled needs"),
    (
        {"web": {"tls": {"enabled": True}}, "serviceMonitor": {"enabled": True, "namespace": "monitoring"}},
        "serviceMonitor.namespace must be the release's",
    ),
]


@pytest.mark.parametrize(("given", "said"), UNKNOWN, ids=lambda value: value if isinstance(value, str) else "")
def test_schema_refuses_with_the_path(given: Values, said: str, files: Files) -> None:
    with pytest.raises(helm_python.HelmValuesError) as refused:
        files(given)

    assert said in str(refused.value)


@pytest.mark.parametrize(("given", "said"), IMPOSSIBLE, ids=lambda value: value if isinstance(value, str) else "")
def test_impossible_combination_is_refused_with_one_line(given: Values, said: str, files: Files) -> None:
    with pytest.raises(helm_python.HelmRenderError) as refused:
        files(given)

    assert said in str(refused.value)
    assert len(str(refused.value).strip().splitlines()) == 1


def test_open_hatches_take_anything_of_kubernetes(render: Render, one: One) -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]
    spec = one(
        render({"extraEnv": env, "podSpec": {"hostNetwork": True, "dnsConfig": {"nameservers": ["1.1.1.1"]}}}),
        "DaemonSet",
    )["spec"]["template"]["spec"]

    assert spec["hostNetwork"] is True
    assert spec["dnsConfig"] == {"nameservers": ["1.1.1.1"]}
    assert env[0] in spec["containers"][0]["env"]
