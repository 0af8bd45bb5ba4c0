"""The chart as Argo CD and `helm diff` see it, on a real API server: `make e2e-kubernetes`.

Argo CD renders with `helm template`, applies on the server and compares by a dry run of that. `helm diff` is the plugin
itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.release import CHART, NAMESPACE, PROFILES, RELEASE, SELECTOR, UNKNOWN_HERE, deploy

MANAGER = "--field-manager=argocd-controller"
SECURED = ("--set", "web.tls.enabled=true,web.basicAuth.enabled=true,dashboards.enabled=true")

# The plugin's last version for Helm 3 asks for a validation that Helm 4 does with its dry run, and refuses beside it.
WITHOUT_VALIDATE = """\
#!/bin/bash
for word; do [ "$word" = --validate ] || words+=("$word"); done
exec helm "${words[@]}"
"""


@pytest.fixture(scope="module")
def values(cluster: Cluster) -> Path:
    return release.default_values(cluster)


@pytest.fixture
def released(cluster: Cluster, values: Path) -> Iterator[Path]:
    deploy(cluster, values, *SECURED)
    yield values
    cluster.helm("uninstall", RELEASE, "-n", NAMESPACE, "--wait")


def diff(cluster: Cluster, values: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """`helm diff upgrade` as the plugin runs it: 0 where nothing would change, 2 where something would."""
    words = ("upgrade", RELEASE, CHART, "-f", str(values), "--detailed-exitcode", "--dry-run=server", *more)
    helm = cluster.home / "helm-of-diff"
    helm.write_text(WITHOUT_VALIDATE)
    helm.chmod(0o755)
    environment = {**cluster.environment, "HELM_BIN": str(helm), "HELM_NAMESPACE": NAMESPACE}
    return subprocess.run(["helm-diff", *words], env=environment, capture_output=True, text=True, check=False)


def test_helm_diff_is_quiet_where_nothing_changes(cluster: Cluster, released: Path) -> None:
    quiet = diff(cluster, released, *SECURED)
    assert (quiet.returncode, quiet.stdout) == (0, ""), quiet.stdout + quiet.stderr

    loud = diff(cluster, released, *SECURED, "--set", "config.sample.interval=2s")
    assert loud.returncode == 2, loud.stderr
    assert [line for line in loud.stdout.splitlines() if line.startswith("+") and "2s" in line]


def rendered(cluster: Cluster, values: Path) -> str:
    """As Argo CD calls Helm."""
    known = cluster.kubectl("api-versions").split()
    flags = [flag for each in known for flag in ("--api-versions", each)]
    given = ("--namespace", NAMESPACE, "--kube-version", "1.36.2", "--include-crds", "--values", str(values))
    return cluster.helm("template", CHART, "--name-template", RELEASE, *given, *flags)


def objects_of(text: str) -> Sequence[dict[str, Any]]:
    """What Argo CD puts there: hooks of `helm test` are none of its own."""
    objects = [each for each in yaml.safe_load_all(text) if each]
    return [each for each in objects if "helm.sh/hook" not in each["metadata"].get("annotations", {})]


def stamps(cluster: Cluster) -> dict[str, str]:
    listed = cluster.get(
        "all,priorityclasses,runtimeclasses,configmaps,serviceaccounts", "-n", NAMESPACE, "-l", SELECTOR
    )
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in listed["items"]}


def test_argo_cd_is_in_sync_after_its_first_sync(cluster: Cluster, values: Path) -> None:
    text = rendered(cluster, values)
    assert rendered(cluster, values) == text
    objects = cluster.home / "argocd.yaml"
    objects.write_text(yaml.safe_dump_all([*objects_of(text)]))
    apply = ("apply", "--server-side", MANAGER, "-n", NAMESPACE, "-f", str(objects))
    try:
        cluster.kubectl(*apply)
        cluster.kubectl("rollout", "status", f"daemonset/{RELEASE}", "-n", NAMESPACE, "--timeout=120s")
        before = stamps(cluster)
        # Raises where the server would change anything.
        cluster.kubectl("diff", "--server-side", MANAGER, "-n", NAMESPACE, "-f", str(objects))
        cluster.kubectl(*apply)

        assert stamps(cluster) == before
        assert any(each.startswith("Pod/") for each in before)
    finally:
        cluster.kubectl("delete", "-n", NAMESPACE, "-f", str(objects), "--ignore-not-found")


def lost(rendered_: Any, kept: Any, path: str) -> Iterator[str]:
    """What the server left out or wrote otherwise, by path: a tool that compares fields would never be in sync."""
    if isinstance(rendered_, dict) and isinstance(kept, dict):
        for key, value in rendered_.items():
            yield from lost(value, kept.get(key), f"{path}.{key}")
    elif isinstance(rendered_, list) and isinstance(kept, list) and len(rendered_) == len(kept):
        for number, (value, there) in enumerate(zip(rendered_, kept, strict=True)):
            yield from lost(value, there, f"{path}[{number}]")
    elif rendered_ != kept:
        yield f"{path}: {rendered_!r} became {kept!r}"


@pytest.mark.parametrize("profile", ["default", "everything", "kube-prometheus-stack"])
def test_server_keeps_each_field_as_it_is_rendered(cluster: Cluster, profile: str) -> None:
    text = rendered(cluster, PROFILES[profile])
    objects = [each for each in objects_of(text) if each["kind"] not in UNKNOWN_HERE]
    for each in objects:
        if each["metadata"].get("namespace") not in {None, NAMESPACE}:
            each["metadata"]["namespace"] = NAMESPACE
    file = cluster.home / f"{profile}.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    given = ("-n", NAMESPACE, "-f", str(file))
    try:
        cluster.kubectl("apply", "--server-side", MANAGER, *given)
        cluster.kubectl("diff", "--server-side", MANAGER, *given)
        kept = {(each["kind"], each["metadata"]["name"]): each for each in cluster.get(*given)["items"]}

        found = [lost(each, kept[each["kind"], each["metadata"]["name"]], each["kind"]) for each in objects]
        assert [path for paths in found for path in paths] == []
    finally:
        cluster.kubectl("delete", *given, "--ignore-not-found")
