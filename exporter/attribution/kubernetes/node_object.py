"""This node's own object in Kubernetes: how many GPUs it should have, and whether somebody took it out of service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from exporter.attribution.documents import Document, decoded, part, parts, text, whole
from exporter.attribution.kubernetes.api_server import ApiServer
from exporter.host.text import natural

_RESOURCE = "nvidia.com/gpu"
_PRODUCT, _REPLICAS = "nvidia.com/gpu.product", "nvidia.com/gpu.replicas"
"""Labels of GPU Feature Discovery: without them nobody knows whether the capacity counts GPUs or parts of them."""
_COUNT = "nvidia.com/gpu.count"
"""The label with the GPUs that the driver shows."""
_OUT = re.compile(r"maintenance|^node\.kubernetes\.io/out-of-service$")
"""Keys of taints; the same as the alert's."""
_MAX_GPUS = 128
"""GPUs that are believed of one node."""


@dataclass(frozen=True, slots=True)
class NodeObject:
    """`gpus` None: its capacity is not reported, or counts other things."""

    gpus: int | None = None
    maintenance: bool = False


def read(server: ApiServer, name: str) -> NodeObject:
    """Raises SourceError. The role needs `get` on `nodes`."""
    return node_of(decoded(whole(server.lines(f"/api/v1/nodes/{quote(name, safe='')}", {}, stream=False))))


def node_of(document: Document) -> NodeObject:
    spec = part(document, "spec")
    tainted = any(_OUT.search(text(taint, "key")) for taint in parts(spec, "taints"))
    return NodeObject(_gpus(document), spec.get("unschedulable") is True or tainted)


def _gpus(document: Document) -> int | None:
    """Return the whole GPUs; None where they are not known.

    Time slicing and MPS count each more than once, MIG's single strategy counts instances. A multiple of the GPUs that
    the driver shows is time slicing that the label of the replicas does not know of.
    """
    labels = part(part(document, "metadata"), "labels")
    capacity = natural(text(part(part(document, "status"), "capacity"), _RESOURCE))
    replicas = natural(text(labels, _REPLICAS))
    if not capacity or not replicas or capacity % replicas or "-MIG-" in text(labels, _PRODUCT):
        return None
    gpus = capacity // replicas
    shown = natural(text(labels, _COUNT)) or gpus
    sliced = gpus > shown and gpus % shown == 0
    return gpus if gpus <= _MAX_GPUS and not sliced else None
