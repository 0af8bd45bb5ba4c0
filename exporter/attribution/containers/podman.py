"""A container of root's Podman, from its storage folder: the database (4.8 and newer), else the list of containers.

The database is read without a lock, so that Podman never waits for this exporter; what was being written at that moment
is looked at again later.
"""

from __future__ import annotations

import json
import os
import stat
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from exporter.attribution.background_source import SourceError
from exporter.attribution.containers.container import MAX_BYTES, PODMAN, Container, container
from exporter.attribution.containers.trusted_file import read
from exporter.attribution.documents import decoded, part, parts, text
from exporter.core.clock import monotonic_time
from exporter.host.text import bounded

_QUERY = "SELECT JSON FROM ContainerConfig WHERE ID = ? AND length(JSON) <= ?"
_LISTS = ("overlay-containers/containers.json", "vfs-containers/containers.json", "btrfs-containers/containers.json")
_MAX_LIST = 16 << 20
_MAX_SECONDS = 2.0
_STEPS = 1000
"""Of the database's machine between two looks at the clock."""


def find(folder: Path, container_id: str) -> Container | None:
    """None where Podman has no such container. Raises SourceError and OSError."""
    try:
        found, failure = _in_database(folder / "db.sql", container_id), None
    except SourceError as error:
        found, failure = None, error
    found = found or _in_lists(folder, container_id)
    if found is None and failure is not None:
        raise failure
    return found


def _in_database(path: Path, container_id: str) -> Container | None:
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


def _in_lists(folder: Path, container_id: str) -> Container | None:
    for name in _LISTS:
        content = read(folder / name, _MAX_LIST)
        if content is not None and (listed := _in_list(content, container_id)):
            return listed
    return None


def _in_list(content: bytes, container_id: str) -> Container | None:
    """The list knows names and no labels."""
    try:
        listed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"containers.json: not JSON: {str(error)[:200]}") from None
    for each in parts({"all": listed}, "all"):
        if each.get("id") == container_id:
            names: Any = each.get("names")
            name = names[0] if isinstance(names, list) and names else ""  # pyright: ignore[reportUnknownVariableType]
            return container(PODMAN, bounded(name), {}) if isinstance(name, str) and name else None
    return None
