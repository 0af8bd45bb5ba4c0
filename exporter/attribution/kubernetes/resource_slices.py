"""What NVIDIA's DRA driver calls the devices of this node: the ResourceSlices it publishes, name to UUID.

The kubelet reports only names (`gpu-0-mig-19-4-1`: minor, profile, place), and a place is known to the driver's
administrator alone. Asked when a name could not be found otherwise; the role needs `list` on `resourceslices`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from exporter.attribution.background_source import SourceError
from exporter.attribution.documents import whole
from exporter.attribution.kubernetes.api_server import ApiServer

PATHS = ("/apis/resource.k8s.io/v1/resourceslices", "/apis/resource.k8s.io/v1beta1/resourceslices")
DRIVER = "gpu.nvidia.com"


def listed(server: ApiServer, node: str) -> Mapping[str, str]:
    """Device name to UUID, in whatever case the driver writes it. Raises SourceError."""
    failure = SourceError("no version of resource.k8s.io was asked for")
    for path in PATHS:
        try:
            # Selected by driver and node here as well: an API server that knows no such field would answer all.
            lines = server.lines(path, {"fieldSelector": f"spec.nodeName={node},spec.driver={DRIVER}"}, stream=False)
            return parse(whole(lines), node)
        except SourceError as error:
            failure = error
    raise failure


def parse(text: bytes, node: str) -> Mapping[str, str]:
    """Raises SourceError where it is no list of ResourceSlices."""
    try:
        items = json.loads(text).get("items") or ()
        specs = [item["spec"] for item in items if item["spec"].get("driver") == DRIVER]
        mine = [spec for spec in specs if spec.get("nodeName") == node]
        return dict(pair for spec in mine for device in spec.get("devices") or () for pair in _uuid(device))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise SourceError(f"not a list of ResourceSlices: {error}") from error


def _uuid(device: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    nothing: dict[str, Any] = {}
    attributes: dict[str, Any] = device.get("attributes") or device.get("basic", nothing).get("attributes") or nothing
    uuid: str = attributes.get("uuid", nothing).get("string", "")
    if uuid:
        yield device["name"], uuid
