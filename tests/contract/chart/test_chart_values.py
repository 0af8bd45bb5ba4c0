"""What the chart refuses: values the schema does not know, and combinations that cannot work."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import helm_python
import jsonschema
import pytest
import yaml

from exporter.config.kinds import Pairs
from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from tests.contract.chart import strict_yaml
from tests.contract.chart.conftest import CHART, Files, One, Render, Values
from tests.depth import share

POD_NEEDS_ROOT = "attribution.pods.enabled needs uid 0"
SOCKET = {"socketHostPath": "/run/gpu-exporter/progress"}

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
    ({"extraEnv": [{"name": "A", "value": 1}]}, "at '/extraEnv/0/value'"),
    ({"web": {"telemetryPath": "metrics"}}, "at '/web/telemetryPath'"),
    ({"web": {"basicAuth": {"passwordHash": "plain"}}}, "at '/web/basicAuth/passwordHash'"),
    ({"security": {"runAsUser": "root"}}, "at '/security/runAsUser'"),
    ({"security": {"addCapabilities": ["CAP-SYS"]}}, "at '/security/addCapabilities/0'"),
    ({"security": {"seccomp": "none"}}, "at '/security/seccomp'"),
    ({"service": {"type": "LoadBalancer"}}, "at '/service/type'"),
    ({"serviceMonitor": {"interval": "15"}}, "at '/serviceMonitor/interval'"),
    ({"serviceMonitor": {"labels": {"release": 1}}}, "at '/serviceMonitor/labels/release'"),
    (
        {"prometheusRule": {"alerts": {"rules": {"GpuMemoryLeaked": {"max_leaked_bytes": True}}}}},
        "rules/GpuMemoryLeaked/max_leaked_bytes'",
    ),
    ({"prometheusRule": {"alerts": {"rules": {"GpuMemoryLeaked": {"enabled": "no"}}}}}, "GpuMemoryLeaked/enabled'"),
    ({"prometheusRule": {"alerts": {"rules": {"GpuMemoryLeaked": {"severity": "high"}}}}}, "GpuMemoryLeaked/severity'"),
    (
        {"prometheusRule": {"alerts": {"rules": {"GpuAllocatedIdle": {"except": 'up{a="b"}'}}}}},
        "GpuAllocatedIdle/except'",
    ),
    ({"prometheusRule": {"alerts": {"overrides": [{"alert": "GpuAllocatedIdle"}]}}}, "alerts/overrides/0'"),
    (
        {"prometheusRule": {"alerts": {"rules": {"GpuAllocatedIdle": {"except": r'user=~"a\.b"'}}}}},
        "GpuAllocatedIdle/except'",
    ),
    ({"prometheusRule": {"alerts": {"jobs": "gpus"}}}, "at '/prometheusRule/alerts'"),
    ({"prometheusRule": {"alerts": {"labels": {"on-call": "a"}}}}, "at '/prometheusRule/alerts/labels'"),
    ({"service": {"clusterIP": "{a"}}, "at '/service/clusterIP'"),
    ({"dashboards": {"label": "a b"}}, "at '/dashboards/label'"),
    ({"commonAnnotations": {"a b": "c"}}, "at '/commonAnnotations'"),
    ({"podLabels": {"a": 1}}, "at '/podLabels/a'"),
    ({"podLabels": {"a": "not a label"}}, "at '/podLabels/a'"),
    ({"resources": {"limit": {"memory": "1Gi"}}}, "at '/resources'"),
    ({"resources": {"limits": {"memory": "1 GB"}}}, "at '/resources/limits/memory'"),
    ({"resources": {"limits": {"memory": "64ki"}}}, "at '/resources/limits/memory'"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "some"}}}, "at '/updateStrategy/rollingUpdate/max"),
    ({"config": {"sample": {"interval": "2 parsecs"}}}, "at '/config/sample/interval'"),
    ({"config": {"sample": {"interval": "0s"}}}, "at '/config/sample/interval'"),
    ({"config": {"process": {"limit": "many"}}}, "at '/config/process/limit'"),
    ({"config": {"ledger": {"idle": "little"}}}, "at '/config/ledger"),
    ({"config": {"ledger": {"thresholds": {"wait-covr": 0.4}}}}, "at '/config/ledger/thresholds"),
    ({"config": {"sample": {"interval": 3600}}}, "at '/config/sample/interval'"),
    ({"namespaceOverride": "Not Valid"}, "at '/namespaceOverride'"),
    ({"fullnameOverride": "gpu_exporter"}, "at '/fullnameOverride'"),
    ({"fullnameOverride": "1st"}, "at '/fullnameOverride'"),
    ({"web": {"telemetryPath": "/-/healthy"}}, "at '/web/telemetryPath'"),
    ({"web": {"telemetryPath": "/runbooks/metrics"}}, "at '/web/telemetryPath'"),
    ({"image": {"registry": "https://registry.example.com"}}, "at '/image/registry'"),
    ({"image": {"registry": "registry.example.com/"}}, "at '/image/registry'"),
    ({"image": {"tag": "a:b"}}, "at '/image/tag'"),
    ({"imagePullSecrets": [{"tag": "x"}]}, "at '/imagePullSecrets/0'"),
    ({"attribution": {"pods": {"kubeletDir": "/var/lib/kubelet/pod-resources"}}}, "at '/attribution/pods/kubeletDir'"),
    ({"priorityClass": {"value": 2000000000}}, "at '/priorityClass/value'"),
    ({"priorityClass": {"preemptionPolicy": "Always"}}, "at '/priorityClass/preemptionPolicy'"),
    ({"runtimeClass": {"name": "NVIDIA"}}, "at '/runtimeClass/name'"),
    ({"resources": None}, "missing property 'resources'"),
    ({"web": None}, "missing property 'web'"),
]


def thresholds(alert: str, **given: Any) -> Values:
    return {"prometheusRule": {"alerts": {"rules": {alert: given}}}}


def override(alert: str, **given: Any) -> Values:
    return {"prometheusRule": {"alerts": {"overrides": [{"alert": alert, "where": 'class="batch"', **given}]}}}


RULES = "prometheusRule.alerts.rules"
SURGE: Values = {"rollingUpdate": {"maxSurge": "10%"}}
IMPOSSIBLE = [
    (thresholds("GpuUnderutilised"), f"{RULES}: there is no alert GpuUnderutilised; did you mean GpuUnderutilized?"),
    (
        thresholds("GpuMemoryLeaked", max_leaked_byte=70),
        f"{RULES}.GpuMemoryLeaked: there is no parameter max_leaked_byte; did you mean max_leaked_bytes?",
    ),
    (
        thresholds("GpuMemoryLeaked", zz=1),
        "no parameter zz: known are enabled, for, keepFiringFor, max_leaked_bytes, severity",
    ),
    (
        thresholds("GpuThermalThrottling", max_fanless_celsius="70"),
        f"{RULES}.GpuThermalThrottling.max_fanless_celsius=70 must be a number, such as 70",
    ),
    (thresholds("GpuMemoryLeaked", **{"for": "10"}), f"{RULES}.GpuMemoryLeaked.for=10 must be a duration, such as 10m"),
    (thresholds("GpuAllocatedIdle", window="0s"), "GpuAllocatedIdle.window=0s must be a duration longer than none"),
    (
        thresholds("GpuMemoryLeaked", max_leaked_bytes="1Gi"),
        "GpuMemoryLeaked.max_leaked_bytes=1Gi must be a number, such as 1073741824",
    ),
    (thresholds("GpuNodeMaintenance", maintenance=1), "GpuNodeMaintenance.maintenance=1 must be a text, such as"),
    (override("GpuLost"), "prometheusRule.alerts.overrides[0].alert: there is no alert to owners GpuLost"),
    (override("GpuAllocatedIdle", share=1), "prometheusRule.alerts.overrides[0]: there is no parameter share"),
    (
        override("GpuAllocatedIdle", min_idle_ratio="x"),
        "prometheusRule.alerts.overrides[0].min_idle_ratio=x must be a number",
    ),
    (
        {"nccl": {"ras": {"enabled": True}}, "attribution": {"processes": {"enabled": False}}},
        "nccl.ras.enabled needs attribution.processes.enabled=true",
    ),
    (
        {"nccl": {"ras": {"enabled": True, "enterNetworks": False}}},
        "nccl.ras.enabled without nccl.ras.enterNetworks needs hostNetwork=true",
    ),
    ({"security": {"runAsUser": 65534}}, POD_NEEDS_ROOT),
    ({"security": {"runAsUser": "cluster"}}, POD_NEEDS_ROOT),
    ({"podSecurityContext": {"runAsNonRoot": True}}, POD_NEEDS_ROOT),
    ({"containerSecurityContext": {"runAsNonRoot": True}}, POD_NEEDS_ROOT),
    ({"attribution": {"pods": {"enabled": False, "labels": ["team"]}}}, "attribution.pods.labels needs"),
    ({"attribution": {"pods": {"api": False, "labels": ["team"]}}}, "attribution.pods.labels needs"),
    ({"nvidia": {"migMonitorDevices": "all"}}, "nvidia.migMonitorDevices needs"),
    (
        {
            "security": {"addCapabilities": ["SYS_ADMIN"]},
            "containerSecurityContext": {"allowPrivilegeEscalation": False},
        },
        "allowPrivilegeEscalation=false cannot be had",
    ),
    (
        {"progress": SOCKET, "attribution": {"processes": {"enabled": False}}},
        "progress.socketHostPath needs attribution",
    ),
    ({"progress": SOCKET, "attribution": {"pods": {"enabled": False}}}, "progress.socketHostPath needs uid 0"),
    ({"hostNetwork": True, "updateStrategy": SURGE}, "maxSurge cannot be had with hostNetwork"),
    ({"podSpec": {"hostNetwork": True}, "updateStrategy": SURGE}, "maxSurge cannot be had with hostNetwork"),
    ({"hostPort": 9836, "updateStrategy": SURGE}, "maxSurge cannot be had with hostNetwork or hostPort"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}}, "maxUnavailable=0 needs maxSurge"),
    ({"updateStrategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}}}, "maxUnavailable=0 needs maxSurge"),
    ({"runtimeClass": {"create": True}}, "runtimeClass.create needs"),
    ({"hostNetwork": True, "hostPort": 9000}, "hostPort must be the port itself with hostNetwork"),
    ({"service": {"nodePort": 30036}}, "service.nodePort needs service.type=NodePort"),
    ({"dashboards": {"include": ["flet"]}}, "dashboards.include: there is no dashboard flet; did you mean fleet?"),
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
    ({"web": {"basicAuth": {"enabled": True, "password": "é" * 37}}}, "the 72 bytes that bcrypt takes"),
    ({"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}, "would scrape everything twice"),
    ({"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}, "serviceMonitor.enabled needs"),
    (
        {"prometheusRule": {"enabled": True, "alerts": {"interval": "4m60s"}}},
        "prometheusRule.alerts.interval=4m60s must be shorter than 5m",
    ),
    ({"podMonitor": {"enabled": True, "interval": "59s", "scrapeTimeout": "1m"}}, "podMonitor.scrapeTimeout=1m is"),
    (
        {"web": {"tls": {"enabled": True}}, "serviceMonitor": {"enabled": True, "namespace": "monitoring"}},
        "serviceMonitor.namespace must be the release's",
    ),
]


FOREIGN: Mapping[str, str] = yaml.safe_load((CHART / "files/names-of-other-charts.yaml").read_text())


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("value", [{"a": "b"}, "x", 0, []], ids=repr)
def test_name_of_another_chart_is_refused_with_the_one_of_this_chart(name: str, value: Any, files: Files) -> None:
    with pytest.raises(helm_python.HelmRenderError) as refused:
        files(at_path(tuple(name.split(".")), value))

    assert f"{name}: this chart calls it {FOREIGN[name]}" in str(refused.value)
    assert len(str(refused.value).strip().splitlines()) == 1


def test_hints_for_names_of_other_charts_are_values_of_this_chart() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    known = {".".join(path) for path in paths(values)}

    assert {ours.partition("=")[0] for ours in FOREIGN.values()} <= known
    assert not FOREIGN.keys() & known


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


def paths(at: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if path:
        yield path
    if isinstance(at, dict):
        for key, child in at.items():
            yield from paths(child, (*path, key))


def at_path(path: tuple[str, ...], value: Any) -> Any:
    return value if not path else {path[0]: at_path(path[1:], value)}


def complaint(files: Files, path: tuple[str, ...], value: Any) -> str:
    """What is wrong with how the chart takes this value; empty where it refuses it well, or renders good YAML."""
    try:
        made = files(at_path(path, value))
    except helm_python.HelmValuesError as error:
        return "" if path[-1].replace("/", "~1") in str(error) else str(error)
    except helm_python.HelmRenderError as error:
        said = str(error).strip()
        own_words = "execution error at (gpu-exporter/templates/daemonset.yaml:1:4): " in said
        return "" if own_words and len(said.splitlines()) == 1 else said
    texts = [text for file, text in made.items() if not file.endswith(".txt")]
    return "" if all(each["kind"] for text in texts for each in strict_yaml.load_all(text)) else "no kind"


NONSENSE = (None, "x y", -1, [{}], {"no": "such"})


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_nonsense_anywhere_is_refused_by_its_path_or_renders_whole(value: Any, files: Files) -> None:
    """At each place one of them, in `make test-deep` every one."""
    # No template may stumble: what gets past the schema is refused by the chart's own words, or gives good YAML.
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chosen = share(paths(values), NONSENSE.index(value), len(NONSENSE))
    found = {".".join(path): complaint(files, path, value) for path in chosen}

    assert {path: said for path, said in found.items() if said} == {}


def lists(at: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(at, list):
        yield path
    if isinstance(at, dict):
        for key, child in at.items():
            yield from lists(child, (*path, key))


def test_a_list_without_entries_may_be_written_as_null(files: Files) -> None:
    """`tolerations:` with nothing behind it, as a comment leaves it."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    switched = {"networkPolicy": {"enabled": True}, "prometheusRule": {"enabled": True}}
    for path in lists(values):
        given = at_path(path, None)
        assert files({**given, **{key: {**switched[key], **given.get(key, {})} for key in switched}}), path


def options_below(schema: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for key, child in schema["properties"].items():
        if "properties" in child:
            yield from options_below(child, f"{name}{key}.")
        else:
            yield (name + key).removesuffix(".value"), child


TEXTS = (
    *("1", "0", "0s", "2s", "1.5h", "2 parsecs", "-1", "many", "true", "warn", "debug", "on", ""),
    *("0.5", ".25", "1.0", "2", "5e-2", "1e3", "12abc", "256", "0257"),
)


def parsers() -> Mapping[str, Callable[[str], Any]]:
    """Return the parser of each option and of each name that an option's mapping may hold."""
    options = options_of(DaemonConfig)
    mappings = [(option.name, option.parse.kinds) for option in options if isinstance(option.parse, Pairs)]
    below = {f"{name}.{each}": kind for name, kinds in mappings for each, kind in kinds.items()}
    return {option.name: option.parse for option in options} | below


def options_of_chart() -> Iterator[tuple[str, Any]]:
    yield from options_below(json.loads((CHART / "values.schema.json").read_text())["properties"]["config"])


def test_schema_below_config_accepts_what_the_exporter_accepts() -> None:
    accepts = parsers()
    for name, schema in options_of_chart():
        if not schema.keys() & {"pattern", "enum"} and schema["type"] != "boolean":
            continue  # a text: what it means is the exporter's to say, in the first line of its log
        for text in TEXTS:
            given = yaml.safe_load(text) if schema.get("type") == "boolean" else text
            try:
                accepts[name](text)
            except ValueError:
                accepted = False
            else:
                accepted = True
            fits = jsonschema.Draft7Validator(schema).is_valid(given)
            assert fits == accepted or (schema.get("type") == "boolean" and not isinstance(given, bool)), (name, text)


def test_schema_below_config_accepts_numbers_that_the_exporter_accepts() -> None:
    accepts = parsers()
    wrong = []
    for name, schema in options_of_chart():
        if not {"number", "integer"} & {*schema.get("type", ())}:
            continue
        for number in (0, 1, 2, 0.5, 60, 200, 256, 257, 70_000, -1):
            try:
                accepts[name](str(number))
            except ValueError:
                accepted = False
            else:
                accepted = True
            if jsonschema.Draft7Validator(schema).is_valid(number) != accepted:
                wrong.append((name, number))

    assert wrong == []


def test_open_hatches_take_anything_of_kubernetes(render: Render, one: One) -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}]
    spec = one(
        render({"extraEnv": env, "podSpec": {"hostNetwork": True, "dnsConfig": {"nameservers": ["1.1.1.1"]}}}),
        "DaemonSet",
    )["spec"]["template"]["spec"]

    assert spec["hostNetwork"] is True
    assert spec["dnsConfig"] == {"nameservers": ["1.1.1.1"]}
    assert env[0] in spec["containers"][0]["env"]
