"""A container of containerd without Kubernetes (nerdctl, ctr), from the bundle it was started from.

The bundle is `io.containerd.runtime.v2.task/NAMESPACE/ID/config.json` below containerd's state folder. nerdctl writes
the name into its annotations; the ids of `ctr` are names that people chose.
"""

from __future__ import annotations

import re
from pathlib import Path

from exporter.attribution.background_source import SourceError
from exporter.attribution.containers.container import CONTAINERD, MAX_BYTES, Container, container
from exporter.attribution.containers.trusted_file import read
from exporter.attribution.documents import decoded, part, text

_BUNDLES = "io.containerd.runtime.v2.task"
_KUBERNETES = "k8s.io"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_RANDOM = re.compile(r"[0-9a-f]{64}")
_MAX_NAMESPACES = 64


def find(folder: Path, container_id: str, namespace: str = "") -> Container | None:
    """None where there is no such bundle. Raises SourceError and OSError."""
    if not _PLAIN.fullmatch(container_id) or (namespace and not _PLAIN.fullmatch(namespace)):
        return None
    bundles = folder / _BUNDLES
    for each in (namespace,) if namespace else _namespaces(bundles):
        content = read(bundles / each / container_id / "config.json", MAX_BYTES)
        if content is not None:
            return _named(content, container_id)
    return None


def _named(content: bytes, container_id: str) -> Container | None:
    document = decoded(content)
    if "ociVersion" not in document:
        raise SourceError("not an OCI bundle")
    annotations = part(document, "annotations")
    name = text(annotations, "nerdctl/name") or ("" if _RANDOM.fullmatch(container_id) else container_id)
    return container(CONTAINERD, name, annotations) if name else None


def _namespaces(bundles: Path) -> tuple[str, ...]:
    try:
        names = sorted(each.name for each in bundles.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(name for name in names if name != _KUBERNETES and _PLAIN.fullmatch(name))[:_MAX_NAMESPACES]
