"""The HelmRelease of docs/kubernetes/gitops.md under Flux's own helm-controller: `make e2e-kubernetes`.

What its source-controller does, packing the chart without links and telling where the archive is, is done here.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import ROOT, TOOLS, Cluster
from tests.e2e.kubernetes.release import CHART, NAMESPACE, RELEASE, SELECTOR, exporter, secret
from tests.e2e.kubernetes.waiting import NotYetError, wait_for

VERSION = "0.1.0+1a2b3c4"
"""With the commit behind it, as where `reconcileStrategy` is Revision."""
SOURCES = f"helmcharts.source.toolkit.fluxcd.io/{NAMESPACE}-{RELEASE}"
OBJECT = f"helmreleases.helm.toolkit.fluxcd.io/{RELEASE}"


@pytest.fixture(scope="module")
def controller(cluster: Cluster) -> Iterator[None]:
    definitions = str(TOOLS / "flux-crds")
    cluster.kubectl("apply", "--server-side", "-f", definitions)
    # It fails too where a definition has no status yet.
    wait_for(lambda: cluster.kubectl("wait", "--for=condition=Established", "-f", definitions, "--timeout=60s"))
    addresses = ("--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0")
    cluster.start("helm-controller", *addresses, "--watch-all-namespaces", "--enable-leader-election=false")
    yield
    cluster.stop("helm-controller")


@pytest.fixture(scope="module")
def archive(cluster: Cluster) -> Iterator[dict[str, Any]]:
    """The artifact of the packed chart, as source-controller's status has it; it takes regular files alone."""
    folder = cluster.home / "artifact"
    source = folder / "gpu-exporter"
    shutil.copytree(CHART, source, ignore=lambda at, names: [each for each in names if Path(at, each).is_symlink()])
    cluster.helm("package", str(source), "--version", VERSION, "--destination", str(folder))
    (packed,) = folder.glob("*.tgz")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "url": f"http://127.0.0.1:{server.server_address[1]}/{packed.name}",
        "path": packed.name,
        "digest": f"sha256:{hashlib.sha256(packed.read_bytes()).hexdigest()}",
        "revision": VERSION,
        "lastUpdateTime": now(),
    }
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def told_where(cluster: Cluster, artifact: dict[str, Any]) -> None:
    """The part of source-controller, for the HelmChart that helm-controller makes of a HelmRelease."""
    generation = cluster.get(SOURCES, "-n", NAMESPACE)["metadata"]["generation"]
    ready = {"type": "Ready", "status": "True", "reason": "ChartPackageSucceeded", "message": "packed"}
    when = {"lastTransitionTime": artifact["lastUpdateTime"], "observedGeneration": generation}
    status = {"observedGeneration": generation, "artifact": artifact, "conditions": [{**ready, **when}]}
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", SOURCES, "-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", patch)


def wanted(values: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The page's own, with the values of this cluster; what others change is to be put back."""
    text = (ROOT / "docs/kubernetes/gitops.md").read_text()
    blocks = map(yaml.safe_load, re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    (page,) = (each for each in blocks if each["kind"] == "HelmRelease")
    return {**page, "spec": {**page["spec"], "values": values, "driftDetection": {"mode": "enabled"}, **spec}}


def settled(cluster: Cluster, version: int, *conditions: str) -> dict[str, Any]:
    """Its status. Raises NotYetError while the release is not that version, ready and all that is asked of it."""
    found = cluster.get(OBJECT, "-n", NAMESPACE)
    status: dict[str, Any] = found.get("status", {})
    true = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
    seen = status.get("observedGeneration") == found["metadata"]["generation"]
    versions = [each["version"] for each in status.get("history", ())]
    if not seen or not {"Ready", "Released", *conditions} <= true or versions[:1] != [version]:
        raise NotYetError(status)
    return status


def reconcile(cluster: Cluster) -> str:
    """Ask for it; the answer is what the status then has as handled."""
    asked = datetime.now(timezone.utc).isoformat()
    cluster.kubectl("annotate", OBJECT, "-n", NAMESPACE, "--overwrite", f"reconcile.fluxcd.io/requestedAt={asked}")
    return asked


@pytest.fixture(scope="module")
def given(cluster: Cluster) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load(release.default_values(cluster).read_text())
    web = {"tls": {"enabled": True}, "basicAuth": {"enabled": True}}
    return {**values, "dashboards": {"enabled": True}, "web": web}


@pytest.mark.usefixtures("controller")
def test_release_of_the_page_is_installed_with_its_dashboards(
    cluster: Cluster, given: dict[str, Any], archive: dict[str, Any]
) -> None:
    cluster.apply(wanted(given))
    wait_for(lambda: told_where(cluster, archive))
    wait_for(lambda: settled(cluster, 1), 240)
    maps = cluster.get("configmaps", "-n", NAMESPACE, "-l", SELECTOR)["items"]
    dashboards = [each for each in maps if any(name.endswith(".json") for name in each.get("data", {}))]

    assert len(dashboards) == len(list(Path(CHART, "charts/rules-and-dashboards/dashboards").glob("*.json")))
    assert exporter(cluster)["status"]["phase"] == "Running"
    daemonset = cluster.get("daemonset", RELEASE, "-n", NAMESPACE)
    assert daemonset["metadata"]["labels"]["helm.sh/chart"] == f"gpu-exporter-{VERSION.replace('+', '_')}"


def test_reconciling_without_a_change_changes_nothing(cluster: Cluster) -> None:
    before, pod = secret(cluster), exporter(cluster)["metadata"]["uid"]
    asked = reconcile(cluster)

    def reconciled() -> None:
        if settled(cluster, 1).get("lastHandledReconcileAt") != asked:
            raise NotYetError(asked)

    wait_for(reconciled)
    assert secret(cluster) == before
    assert exporter(cluster)["metadata"]["uid"] == pod
    assert "detected changes in cluster state" not in (cluster.home / "helm-controller.log").read_text()


def test_what_others_delete_comes_back(cluster: Cluster) -> None:
    cluster.kubectl("delete", "service", RELEASE, "-n", NAMESPACE)
    reconcile(cluster)
    wait_for(lambda: cluster.get("service", RELEASE, "-n", NAMESPACE))


def test_changed_values_are_an_upgrade_and_its_test_leaves_nothing(
    cluster: Cluster, given: dict[str, Any], archive: dict[str, Any]
) -> None:
    before = secret(cluster)
    # No DNS here: the test pod gets the service's name by its hosts file.
    alias = {"ip": exporter(cluster)["status"]["podIP"], "hostnames": [f"{RELEASE}.{NAMESPACE}.svc"]}
    cluster.apply(wanted({**given, "test": {"podSpec": {"hostAliases": [alias]}}}, test={"enable": True}))
    wait_for(lambda: told_where(cluster, archive))
    wait_for(lambda: settled(cluster, 2, "TestSuccess"), 240)

    assert secret(cluster) == before
    pods = cluster.get("pods", "-n", NAMESPACE)["items"]
    assert [each["metadata"]["name"] for each in pods if each["metadata"]["name"].endswith("-test")] == []


def test_deleted_release_leaves_nothing(cluster: Cluster) -> None:
    cluster.kubectl("delete", OBJECT, "-n", NAMESPACE, "--wait", "--timeout=120s")

    def nothing() -> None:
        left = cluster.kubectl("get", "all,configmaps,secrets", "-n", NAMESPACE, "-l", SELECTOR, "-o", "name").split()
        if left:
            raise NotYetError(left)

    wait_for(nothing, 60)
