"""What an engine's own files say of one container."""

from __future__ import annotations

import re
from collections.abc import Mapping

from exporter.attribution.documents import Document, text
from exporter.core.record import record

DOCKER, PODMAN, CONTAINERD = "docker", "podman", "containerd"
MAX_BYTES = 4 << 20
"""Of a file about one container."""

_PROJECTS = ("com.docker.compose.project", "io.podman.compose.project")
_SERVICES = ("com.docker.compose.service", "io.podman.compose.service")
_ALLOCATION = "com.hashicorp.nomad.alloc_id"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_NOMAD_NAME = re.compile(rf"(?P<task>.+)-(?P<allocation>{_UUID})")
"""Nomad's drivers for Docker and Podman call every container so."""


@record
class Container:
    """`project` and `service` are of the compose file that it is of; `allocation` and `task` are Nomad's."""

    name: str
    engine: str
    project: str = ""
    service: str = ""
    allocation: str = ""
    task: str = ""
    image: str = ""


def container(engine: str, name: str, labels: Document, image: str = "") -> Container:
    """From its name and labels, whichever file they stood in."""
    project, service = _first(labels, _PROJECTS), _first(labels, _SERVICES)
    nomad = _NOMAD_NAME.fullmatch(name)
    if nomad and text(labels, _ALLOCATION) not in ("", nomad["allocation"]):
        nomad = None
    return Container(
        name=name,
        engine=engine,
        project=project if service else "",
        service=service if project else "",
        allocation=nomad["allocation"] if nomad else "",
        task=nomad["task"] if nomad else "",
        image=image,
    )


def _first(labels: Mapping[str, object], names: tuple[str, ...]) -> str:
    return next((found for name in names if (found := text(labels, name))), "")
