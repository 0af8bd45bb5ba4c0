"""What no schema sees: names and label syntax, references between objects and inside a pod, quantities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

Document = Mapping[str, Any]

NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kMGTP]i?)?")
SCALE = {None: Decimal(1), "m": Decimal("0.001")} | {
    f"{letter}{binary}": Decimal(1024 if binary else 1000) ** power
    for power, letter in enumerate("kMGTP", 1)
    for binary in ("", "i")
}


def errors(documents: Iterable[Document]) -> Iterator[str]:
    documents = list(documents)
    identities = [identity(document) for document in documents]
    for twice in {each for each in identities if identities.count(each) > 1}:
        yield f"made twice: {twice}"
    for document in documents:
        for error in (*_metadata(document), *_pod_owner(document, documents)):
            yield f"{document['kind']} {document['metadata']['name']}: {error}"


def identity(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _metadata(document: Document) -> Iterator[str]:
    if not NAME.fullmatch(document["metadata"]["name"]):
        yield "name"
    for key, value in document["metadata"].get("labels", {}).items():
        if not (LABEL_KEY.fullmatch(key) and LABEL_VALUE.fullmatch(value)):
            yield f"label {key}={value}"
    for key, value in document["metadata"].get("annotations", {}).items():
        if not (LABEL_KEY.fullmatch(key) and isinstance(value, str)):
            yield f"annotation {key}={value}"


def _pod_owner(document: Document, documents: list[Document]) -> Iterator[str]:
    if document["kind"] == "DaemonSet":
        template = document["spec"]["template"]
        yield from pod(template["spec"], documents)
        if not document["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items():
            yield "the selector does not select the pods"
        yield from (f"pod {error}" for error in _metadata({"metadata": {"name": "x", **template["metadata"]}}))
    if document["kind"] == "Pod":
        yield from pod(document["spec"], documents)


def pod(spec: Document, documents: list[Document]) -> Iterator[str]:
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    mounted: set[str] = set()
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        mounts = container.get("volumeMounts", ())
        mounted |= {mount["name"] for mount in mounts}
        paths = [mount["mountPath"] for mount in mounts]
        yield from (f"mounted twice: {path}" for path in {path for path in paths if paths.count(path) > 1})
        yield from _container(container)
    yield from (f"no volume {name}" for name in mounted - volumes.keys())
    yield from (f"volume {name} is not mounted" for name in volumes.keys() - mounted)
    made = {(document["kind"], document["metadata"]["name"]) for document in documents}
    for volume in volumes.values():
        config = volume.get("configMap", {}).get("name")
        if config and ("ConfigMap", config) not in made:
            yield f"no ConfigMap {config}"
    account = spec.get("serviceAccountName", "default")
    if account != "default" and ("ServiceAccount", account) not in made:
        yield f"no ServiceAccount {account}"


def _container(container: Document) -> Iterator[str]:
    ports = {port["name"] for port in container.get("ports", ())}
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        for handler in ("httpGet", "tcpSocket"):
            port = container.get(probe, {}).get(handler, {}).get("port")
            if isinstance(port, str) and port not in ports:
                yield f"{probe}: no port {port}"
    names = [variable["name"] for variable in container.get("env", ())]
    yield from (f"environment given twice: {name}" for name in {name for name in names if names.count(name) > 1})
    resources = container.get("resources", {})
    for resource, limit in resources.get("limits", {}).items():
        request = resources.get("requests", {}).get(resource, limit)
        if quantity(request) > quantity(limit):
            yield f"{resource}: {request} asked, {limit} allowed"


def quantity(text: str) -> Decimal:
    match = QUANTITY.fullmatch(str(text))
    if not match:
        raise ValueError(f"no quantity: {text}")
    return Decimal(match[1]) * SCALE[match[2]]
