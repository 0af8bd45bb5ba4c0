"""An API server that holds what a test puts there: enough of Kubernetes' API for Helm's `lookup` to ask it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import yaml

Object = dict[str, Any]

# Path of the group's version, kind, plural; all of them lie outside namespaces.
KNOWN = (
    ("/api/v1", "Namespace", "namespaces"),
    ("/api/v1", "Node", "nodes"),
    ("/api/v1", "Pod", "pods"),
    ("/api/v1", "LimitRange", "limitranges"),
    ("/api/v1", "ResourceQuota", "resourcequotas"),
    ("/apis/node.k8s.io/v1", "RuntimeClass", "runtimeclasses"),
    ("/apis/scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    ("/apis/apiextensions.k8s.io/v1", "CustomResourceDefinition", "customresourcedefinitions"),
)
APPLIED = (
    ("/api/v1", "ConfigMap", "configmaps"),
    ("/api/v1", "Service", "services"),
    ("/api/v1", "ServiceAccount", "serviceaccounts"),
    ("/apis/apps/v1", "DaemonSet", "daemonsets"),
    ("/apis/rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles"),
    ("/apis/rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "clusterrolebindings"),
)
"""Kinds of a default install that Helm applies without asking for them first."""
OPERATORS = (("/apis/monitoring.coreos.com/v1", "ServiceMonitor", "servicemonitors"),)


def _resource(kind: str, plural: str) -> Object:
    return {"name": plural, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["get", "list"]}


def _groups(kinds: Sequence[tuple[str, str, str]]) -> Object:
    names = sorted({path.split("/")[2] for path, _, _ in kinds if path.startswith("/apis/")})
    versions = {name: [{"groupVersion": f"{name}/v1", "version": "v1"}] for name in names}
    groups = [{"name": name, "versions": versions[name], "preferredVersion": versions[name][0]} for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def _openapi(kinds: Sequence[tuple[str, str, str]]) -> dict[str, Object]:
    """Return the documents by which a client learns that the server validates every object itself."""
    parameter = {"name": "fieldValidation", "in": "query"}
    made: dict[str, Object] = {}
    for path, kind, plural in kinds:
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        of_kind = {"group": group, "version": version, "kind": kind}
        document = made.setdefault(f"/openapi/v3{path}", {"openapi": "3.0.0", "paths": {}})
        patch = {"parameters": [parameter], "x-kubernetes-group-version-kind": of_kind}
        document["paths"][f"{path}/{plural}/{{name}}"] = {"patch": patch}
    listed = {url.removeprefix("/openapi/v3/"): {"serverRelativeURL": url} for url in made}
    return {**made, "/openapi/v3": {"paths": listed}}


def answers(objects: Sequence[Object], kinds: Sequence[tuple[str, str, str]]) -> dict[str, Object]:
    """Everything such a server says, by path."""
    made: dict[str, Object] = {
        "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.2"},
        "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        "/apis": _groups(kinds),
        **_openapi(kinds),
    }
    for path, kind, plural in kinds:
        version = path.removeprefix("/apis/").removeprefix("/api/")
        listed = made.setdefault(path, {"kind": "APIResourceList", "groupVersion": version, "resources": []})
        listed["resources"].append(_resource(kind, plural))
        items = [{"apiVersion": version, **each} for each in objects if each["kind"] == kind]
        made[f"{path}/{plural}"] = {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": items}
        made |= {f"{path}/{plural}/{each['metadata']['name']}": each for each in items}
    return made


@contextlib.contextmanager
def serving(said: dict[str, Object]) -> Iterator[str]:
    """A kubeconfig, as text, for a server on loopback that answers GET by `said`, and else 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = said.get(self.path.partition("?")[0])
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(found or missing).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "it", "user": {}}],
            }
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
