"""One container in the files of its engine: Docker, Podman or containerd.

Only files of root or of this exporter's user count: files that other users can write must not name containers.
"""

from __future__ import annotations

import json
import os
import re
import stat
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import Document, decoded, items, objects, part, text
from exporter.core.clock import monotonic_time
from exporter.core.record import record
from exporter.host.text import bounded, read_regular

DOCKER, PODMAN, CONTAINERD = "docker", "podman", "containerd"
MAX_BYTES = 4 << 20
"""Size limit of a file about one container."""

_PROJECTS = ("com.docker.compose.project", "io.podman.compose.project")
_SERVICES = ("com.docker.compose.service", "io.podman.compose.service")


@record
class Container:
    """A container with a name; `project` and `service` come from its compose file."""

    name: str
    engine: str
    project: str = ""
    service: str = ""
    image: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def container(engine: str, name: str, labels: Document, image: str = "") -> Container:
    """Return a container by its name and labels."""
    project, service = (
        next((found for name in names if (found := text(labels, name))), "") for names in (_PROJECTS, _SERVICES)
    )
    return Container(
        name=name,
        engine=engine,
        project=project if service else "",
        service=service if project else "",
        image=image,
        labels=tuple((key, text(labels, key)) for key in labels),
    )


def read_trusted(path: Path, limit: int) -> bytes | None:
    """Return the whole file; None if there is none. Raises SourceError and OSError."""
    try:
        content = read_regular(path, limit + 1, {0, os.geteuid()})
    except (FileNotFoundError, NotADirectoryError):
        return None
    if content is None:
        raise SourceError(f"{path}: not a plain file of root")
    if len(content) > limit:
        raise SourceError(f"{path}: more than {limit} bytes")
    return content


def find_docker(folder: Path, container_id: str) -> Container | None:
    """Return a container of Docker, from its daemon's file; None if there is none. Raises SourceError and OSError."""
    content = read_trusted(folder / "containers" / container_id / "config.v2.json", MAX_BYTES)
    if content is None:
        return None
    document = decoded(content)
    name = text(document, "Name").lstrip("/")
    if text(document, "ID") not in ("", container_id) or not name:
        raise SourceError("not Docker's file of this container")
    config = part(document, "Config")
    return container(DOCKER, name, part(config, "Labels"), text(config, "Image"))


_QUERY = "SELECT JSON FROM ContainerConfig WHERE ID = ? AND length(JSON) <= ?"
_LISTS = ("overlay-containers/containers.json", "vfs-containers/containers.json", "btrfs-containers/containers.json")
_MAX_LIST_BYTES = 16 << 20
_MAX_SECONDS = 2.0
_STEPS = 1000
"""Steps of the database's machine between two readings of the clock."""


def find_podman(folder: Path, container_id: str) -> Container | None:
    """Return a container of root's Podman, from its database (4.8 and newer), else from its list. Raises as above."""
    try:
        found, failure = _in_database(folder / "db.sql", container_id), None
    except SourceError as error:
        found, failure = None, error
    for name in _LISTS if found is None else ():
        content = read_trusted(folder / name, _MAX_LIST_BYTES)
        if content is not None and (found := _in_list(content, container_id)):
            break
    if found is None and failure is not None:
        raise failure
    return found


def _in_database(path: Path, container_id: str) -> Container | None:
    """Read the database without a lock: Podman never waits for this exporter. A torn read is repeated later."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_uid not in (0, os.geteuid()):
        raise SourceError(f"{path}: not a plain file of root")
    import sqlite3  # noqa: PLC0415 - memory that only nodes with Podman spend

    uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
    began = monotonic_time()
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=0)) as database:
            database.set_progress_handler(lambda: monotonic_time() - began > _MAX_SECONDS, _STEPS)
            row = database.execute(_QUERY, (container_id, MAX_BYTES)).fetchone()
    except sqlite3.Error as error:
        raise SourceError(f"{path}: {error}") from None
    if row is None:
        return None
    content = row[0]
    document = decoded(content if isinstance(content, bytes) else str(content).encode("utf-8", "replace"))
    name = text(document, "name")
    return container(PODMAN, name, part(document, "labels"), text(document, "rootfsImageName")) if name else None


def _in_list(content: bytes, container_id: str) -> Container | None:
    """Return the container of a list, which has names and no labels."""
    try:
        listed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"containers.json: not JSON: {str(error)[:200]}") from None
    for each in objects(listed):
        if each.get("id") == container_id:
            name = next(iter(items(each.get("names"))), "")
            return container(PODMAN, bounded(name), {}) if isinstance(name, str) and name else None
    return None


_BUNDLES = "io.containerd.runtime.v2.task"
_KUBERNETES = "k8s.io"
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_RANDOM = re.compile(r"[0-9a-f]{64}")
_MAX_NAMESPACES = 64


def find_containerd(folder: Path, container_id: str, namespace: str = "") -> Container | None:
    """Return a container of containerd without Kubernetes, from the `config.json` of its bundle; None if there is none.

    nerdctl writes the name into its annotations; the ids of `ctr` are names that people chose. Raises SourceError and
    OSError.
    """
    if not _PLAIN.fullmatch(container_id) or (namespace and not _PLAIN.fullmatch(namespace)):
        return None
    bundles = folder / _BUNDLES
    for each in (namespace,) if namespace else _containerd_namespaces(bundles):
        content = read_trusted(bundles / each / container_id / "config.json", MAX_BYTES)
        if content is not None:
            return _of_bundle(content, container_id)
    return None


def _of_bundle(content: bytes, container_id: str) -> Container | None:
    document = decoded(content)
    if "ociVersion" not in document:
        raise SourceError("not an OCI bundle")
    annotations = part(document, "annotations")
    name = text(annotations, "nerdctl/name") or ("" if _RANDOM.fullmatch(container_id) else container_id)
    return container(CONTAINERD, name, annotations) if name else None


def _containerd_namespaces(bundles: Path) -> tuple[str, ...]:
    try:
        names = sorted(each.name for each in bundles.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(name for name in names if name != _KUBERNETES and _PLAIN.fullmatch(name))[:_MAX_NAMESPACES]
