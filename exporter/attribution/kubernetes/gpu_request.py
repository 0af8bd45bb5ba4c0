"""What a pod asks of GPUs, by its specification and by what schedulers that share GPUs write on it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from exporter.attribution.documents import Document, part, parts, text
from exporter.host.text import natural

_DEVICES = "nvidia.com/"
"""Of a resource's name: NVIDIA's device plugin gives these out, and the kubelet lists them."""
_SHARING = re.compile("gpu|cuda|mig-", re.IGNORECASE)
"""In the name of a label, an annotation or a resource: something but NVIDIA's device plugin may give out GPUs."""
_UUID = re.compile("(?:GPU|MIG)-[0-9a-f]{8}-")
"""In the value of one: so it does."""
_GROUP = "runai-gpu-group"
"""Label of KAI and Run:ai, on the pod that reserves a GPU and on those that share it; also before `/` and a group."""
_FRACTION = "gpu-fraction"
"""Their annotation: fraction of the GPU, above 0 and up to 1."""


def requested_devices(pod: Document) -> int | None:
    """Return how many devices the kubelet has to list; None where the pod may have been given others as well.

    The kubelet lists no device of an init container. Claims, and the labels, annotations and resources of schedulers
    that share GPUs, give out what the pod's containers do not ask for.
    """
    spec, metadata = part(pod, "spec"), part(pod, "metadata")
    containers = parts(spec, "containers")
    initial = [request for each in parts(spec, "initContainers") for request in _resources(each)]
    if not containers or initial or parts(spec, "resourceClaims") or _shared(metadata):
        return None
    asked = [request for each in containers for request in _resources(each)]
    if any(not name.startswith(_DEVICES) or amount is None for name, amount in asked):
        return None
    return sum(amount or 0 for _, amount in asked)


def _shared(metadata: Document) -> bool:
    written = chain(*(part(metadata, key).items() for key in ("labels", "annotations")))
    return any(_SHARING.search(name) or _UUID.search(str(value)) for name, value in written)


def _resources(container: Document) -> Iterator[tuple[str, int | None]]:
    """Yield name and amount of the resources that are GPUs, or parts of one."""
    limits = part(part(container, "resources"), "limits")
    for name in limits:
        if "/" in name and (name.startswith(_DEVICES) or _SHARING.search(name)):
            yield name, natural(text(limits, name))


def gpu_groups(metadata: Document) -> frozenset[str]:
    """Return the groups of pods with which it shares reserved GPUs."""
    labels = part(metadata, "labels")
    return frozenset(text(labels, key) for key in labels if key.partition("/")[0] == _GROUP and text(labels, key))


def gpu_fraction(metadata: Document) -> float | None:
    """Return the fraction of its GPUs that it was given; None where nothing states it."""
    written = text(part(metadata, "annotations"), _FRACTION)
    return float(written) if re.fullmatch(r"(?:0?\.[0-9]{1,6}|1(?:\.0{1,6})?)", written) and float(written) else None
