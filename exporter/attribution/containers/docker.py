"""A container of Docker, from the file that its daemon keeps of it: containers/ID/config.v2.json in its data folder."""

from __future__ import annotations

from pathlib import Path

from exporter.attribution.background_source import SourceError
from exporter.attribution.containers.container import DOCKER, MAX_BYTES, Container, container
from exporter.attribution.containers.trusted_file import read
from exporter.attribution.documents import decoded, part, text


def find(folder: Path, container_id: str) -> Container | None:
    """None where Docker has no such container. Raises SourceError and OSError."""
    content = read(folder / "containers" / container_id / "config.v2.json", MAX_BYTES)
    if content is None:
        return None
    document = decoded(content)
    name = text(document, "Name").lstrip("/")
    if text(document, "ID") not in ("", container_id) or not name:
        raise SourceError("not Docker's file of this container")
    config = part(document, "Config")
    return container(DOCKER, name, part(config, "Labels"), text(config, "Image"))
