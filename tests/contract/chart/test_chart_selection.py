"""Monitor and rules carry the labels by which the cluster's Prometheus selects; the notes name what is missing."""

from __future__ import annotations

import itertools
import json
import runpy
import threading
import urllib.parse
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.contract.chart import api_server
from tests.contract.chart.conftest import CHART, Values, packed
from tests.contract.chart.test_chart_monitoring import OPERATOR, OWN, Installed, install, told

PROMETHEUS = ("/apis/monitoring.coreos.com/v1", "Prometheus", "prometheuses")
STACK = {"matchLabels": {"release": "stack"}}
OTHER = {"matchLabels": {"team": "a.b/c", "prometheus.io/of": "team"}}

Object = dict[str, Any]


def selecting(selector: Object | None, name: str = "k8s", namespaces: Object | None = None, **spec: Any) -> Object:
    """Return a Prometheus that selects monitors and rules by one selector, in the namespaces of the other."""
    for kind in ("serviceMonitor", "podMonitor", "rule"):
        spec |= {} if selector is None else {f"{kind}Selector": selector}
        spec |= {} if namespaces is None else {f"{kind}NamespaceSelector": namespaces}
    return {"kind": "Prometheus", "metadata": {"name": name, "namespace": "monitoring"}, "spec": spec}


def installed(objects: Sequence[Object], given: Values | None = None) -> Installed:
    return install(given or {}, (*OPERATOR, PROMETHEUS), objects)


def labels(made: Installed) -> dict[str, dict[str, str]]:
    """Return the labels of monitor and rules that are not the chart's own."""
    return {
        each["kind"]: {
            key: value
            for key, value in each["metadata"]["labels"].items()
            if not key.startswith(("app.kubernetes.io/", "helm.sh/"))
        }
        for each in made.documents
        if each["apiVersion"] == "monitoring.coreos.com/v1"
    }


def both(of: dict[str, str]) -> dict[str, dict[str, str]]:
    return {"ServiceMonitor": of, "PrometheusRule": of}


READ = "ServiceMonitor (read by Prometheus monitoring/k8s), rules (read by Prometheus monitoring/k8s), dashboards"


@pytest.mark.parametrize(
    ("prometheus", "given", "made"),
    [
        (selecting(STACK, namespaces={}), {}, {"release": "stack"}),
        (selecting({}, namespaces={}), {}, {}),
        (selecting(STACK, namespaces={}), {"commonLabels": {"release": "stack"}}, {"release": "stack"}),
        (selecting(OTHER, namespaces={}), {}, OTHER["matchLabels"]),
        (selecting({"matchLabels": {"app.kubernetes.io/name": "gpu-exporter"}}, namespaces={}), {}, {}),
        # As OpenShift's second Prometheus: every namespace but those of the platform.
        (
            selecting({}, namespaces={"matchExpressions": [{"key": "own", "operator": "NotIn", "values": ["true"]}]}),
            {},
            {},
        ),
        (
            selecting({"matchExpressions": [{"key": "release", "operator": "In", "values": ["x"]}]}, namespaces={}),
            {"serviceMonitor": {"labels": {"release": "x"}}, "prometheusRule": {"labels": {"release": "x"}}},
            {"release": "x"},
        ),
    ],
    ids=range(7),
)  # fmt: skip
def test_objects_get_the_labels_that_prometheus_selects_by(
    prometheus: Object, given: Values, made: dict[str, str]
) -> None:
    found = installed([prometheus], given)

    assert labels(found) == both(made)
    assert told(found.notes)["Monitoring on"] == READ
    assert told(found.notes)["Next"].startswith("kubectl -n monitoring port-forward service/prometheus-operated 9090 ")


@pytest.mark.parametrize(
    ("objects", "given", "on", "next_"),
    [
        pytest.param(
            [selecting(STACK, namespaces={})],
            {"serviceMonitor": {"labels": {"release": "own"}}},
            "ServiceMonitor (not selected: label release=stack is missing), "
            "rules (read by Prometheus monitoring/k8s), dashboards",
            "serviceMonitor.labels.release=stack",
            id="label that was given stays",
        ),
        pytest.param(
            [selecting(STACK, "a", {}), selecting(OTHER, "b", {})],
            {"prometheusRule": {"enabled": False}},
            "ServiceMonitor (not selected: label release=stack, or prometheus.io/of=team,team=a.b/c is missing), "
            "dashboards",
            "serviceMonitor.labels.release=stack",
            id="two that differ are a choice of the user",
        ),
        pytest.param(
            [selecting(OTHER, namespaces={})],
            {"serviceMonitor": {"labels": {"team": "x"}}, "prometheusRule": {"enabled": False}},
            "ServiceMonitor (not selected: label prometheus.io/of=team,team=a.b/c is missing), dashboards",
            r"serviceMonitor.labels.prometheus\.io/of=team,serviceMonitor.labels.team=a.b/c",
            id="dots of a label are escaped",
        ),
        pytest.param(
            [selecting({"matchLabels": {"prometheus": "true"}}, namespaces={})],
            {"serviceMonitor": {"labels": {"prometheus": "x"}}, "prometheusRule": {"enabled": False}},
            "ServiceMonitor (not selected: label prometheus=true is missing), dashboards",
            "--set-string 'serviceMonitor.labels.prometheus=true'",
            id="a label is a text, which --set takes for a boolean",
        ),
        pytest.param(
            [selecting(STACK)],
            {"prometheusRule": {"enabled": False}},
            "ServiceMonitor (not selected: no Prometheus reads namespace mon), dashboards",
            "serviceMonitor.namespace=monitoring",
            id="namespace that is not read",
        ),
        pytest.param(
            [selecting(None)],
            {"prometheusRule": {"enabled": False}},
            "ServiceMonitor (not selected by any Prometheus), dashboards",
            "kubectl get prometheuses -A -o yaml",
            id="no selector selects nothing",
        ),
    ],
)  # fmt: skip
def test_notes_name_what_keeps_an_object_from_prometheus(
    objects: Sequence[Object], given: Values, on: str, next_: str
) -> None:
    lines = told(installed(objects, given).notes)

    assert lines["Monitoring on"] == on
    assert next_ in lines["Next"]


def test_operator_without_a_prometheus_is_reported() -> None:
    lines = told(installed([]).notes)

    assert lines["Monitoring on"].startswith("ServiceMonitor (without label release), rules (without label release)")


def test_cluster_is_not_asked_where_the_chart_may_not() -> None:
    found = installed([selecting(STACK, namespaces={})], {"checkCluster": False})

    assert labels(found) == both({})
    assert "(without label release)" in told(found.notes)["Monitoring on"]


def environment(prometheus: Object, given: Values) -> dict[str, str]:
    """Return the environment of the test's pod. It reads the definitions of the kinds."""
    known = (*api_server.KNOWN, *OPERATOR, PROMETHEUS)
    definitions = [
        {"kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.monitoring.coreos.com"}}
        for _, _, plural in (*OPERATOR, PROMETHEUS)
    ]
    with (
        api_server.serving(api_server.answers([OWN, *definitions, prometheus], known)) as kubeconfig,
        helm_python.Config(kubeconfig_content=kubeconfig, namespace="mon", storage_driver="memory") as config,
        helm_python.Chart.load(str(packed())) as chart,
    ):
        values = {"image": {"registry": "registry.example.com"}, "monitoring": {"enabled": True}, **given}
        made = config.render(chart, values, name="rel", namespace="mon")
    pod = yaml.safe_load(made["gpu-exporter/templates/tests/scrape.yaml"])
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


POOL = "serviceMonitor/mon/rel-gpu-exporter/0"
POD = "http://prometheus-k8s-0.prometheus-operated.monitoring.svc:9090"


@pytest.mark.parametrize(
    ("spec", "given", "url"),
    [
        ({}, {}, POD),
        ({"routePrefix": "/p/"}, {}, f"{POD}/p"),
        ({"serviceName": "own"}, {}, POD.replace("prometheus-operated", "own")),
        ({"listenLocal": True}, {}, None),
        ({"web": {"tlsConfig": {"keySecret": {}}}}, {}, None),
        ({"shards": 2}, {}, None),
        ({"replicas": 0}, {}, None),
        ({}, {"test": {"prometheusUrl": ""}}, None),
        ({"listenLocal": True}, {"test": {"prometheusUrl": "http://own:9090"}}, "http://own:9090"),
        ({}, {"serviceMonitor": {"labels": {"release": "own"}}}, None),
        ({}, {"serviceMonitor": {"enabled": False}, "test": {"prometheusUrl": "http://own:9090"}}, None),
    ],
    ids=range(11),
)
def test_pod_of_helm_test_asks_the_prometheus_that_reads_the_monitor(
    spec: Object, given: Values, url: str | None
) -> None:
    of = environment(selecting(STACK, namespaces={}, **spec), given)

    assert of.get("PROMETHEUS") == url
    assert of.get("POOL") == (POOL if url else None)


class Answers(BaseHTTPRequestHandler):
    """The exporter, and a Prometheus whose targets are a class attribute."""

    targets: tuple[Object, ...] = ()
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = "gpu_exporter_build_info{} 1\n"
        if self.path.startswith("/api/v1/targets"):
            body = json.dumps({"data": {"activeTargets": self.targets}})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answers]]:
    """Both servers on a free port; the pod's clock goes on 10 s with each read of it, and it does not sleep."""
    answers = type("Given", (Answers,), {"asked": []})
    http = ThreadingHTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{http.server_port}"
    monkeypatch.setenv("URL", f"{url}/metrics")
    monkeypatch.setenv("PROMETHEUS", url)
    monkeypatch.setenv("POOL", POOL)
    ticks = itertools.count(0, 10)
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    yield answers
    http.shutdown()
    http.server_close()
    thread.join()


def run() -> None:
    runpy.run_path(str(CHART / "files/test/scrape.py"), run_name="__main__")


def test_helm_test_passes_once_prometheus_has_a_target(server: type[Answers]) -> None:
    server.targets = ({"scrapePool": POOL, "health": "up"},)
    run()

    assert urllib.parse.parse_qs(urllib.parse.urlsplit(server.asked[-1]).query)["scrapePool"] == [POOL]


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ((), "no target of serviceMonitor/mon/rel-gpu-exporter/0 after two minutes is up: the notes"),
        (({"scrapePool": "serviceMonitor/mon/another/0", "health": "up"},), "no target of serviceMonitor/mon/rel"),
        (({"scrapePool": POOL, "health": "down", "lastError": "connection refused"},), "connection refused"),
    ],
)
def test_helm_test_fails_where_prometheus_has_no_target(
    targets: tuple[Object, ...], said: str, server: type[Answers]
) -> None:
    server.targets = targets
    with pytest.raises(SystemExit, match=said):
        run()

    assert len(server.asked) > 10  # two minutes of a clock that goes on 10 s with each read


def test_helm_test_names_the_switch_where_prometheus_cannot_be_asked(
    server: type[Answers], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS", f"file://{tmp_path}/none")
    with pytest.raises(SystemExit, match=r"test\.prometheusUrl"):
        run()
    assert server.asked == ["/metrics"]
