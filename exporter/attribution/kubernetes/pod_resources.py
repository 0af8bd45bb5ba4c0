"""The kubelet's allocations by container: its pod-resources API (v1), decoded.

The messages are four fields deep, so they are read from the wire format itself; the protobuf runtime would add
6.4 MiB and generated code for them. Field numbers are those of k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from exporter.attribution.background_source import SourceError
from exporter.attribution.devices import DeviceName, device_of
from exporter.host.text import bounded

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

_PODS = 1
_ALLOCATABLE_DEVICES = 1
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3
_CONTAINER_NAME, _CONTAINER_DEVICES, _CONTAINER_DYNAMIC = 1, 2, 5
_DEVICES_RESOURCE, _DEVICES_IDS = 1, 2
_DYNAMIC_NAME, _DYNAMIC_NAMESPACE, _DYNAMIC_CLAIMS = 2, 3, 4
_CLAIM_DRIVER, _CLAIM_DEVICE = 2, 4
_DRA_DRIVER = "gpu.nvidia.com"
_NVIDIA = "nvidia.com/"
"""Prefix of a resource's name: its devices are GPUs or parts of one, whatever their ids are."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class PodDevice(NamedTuple):
    """One device given to one container; a container with two replicas of a shared GPU has two of them."""

    namespace: str
    pod: str
    container: str
    device: DeviceName
    """All empty where the id of an NVIDIA device is of a kind not known here."""
    claim: str = ""
    """Namespace and name of the ResourceClaim; empty for a device plugin's. Containers and pods can share one."""


def listed(path: Path, timeout: float = 5.0) -> tuple[PodDevice, ...]:
    """Ask the kubelet. Raises SourceError."""
    from exporter.attribution.kubernetes import grpc_unary  # noqa: PLC0415 - h2 is memory that only nodes with a kubelet spend

    return decode(grpc_unary.call(path, LIST, timeout=timeout))


def decode(message: bytes) -> tuple[PodDevice, ...]:
    """NVIDIA devices of a ListPodResourcesResponse. Raises SourceError where it is not one."""
    try:
        return tuple(
            PodDevice(
                _text_field(pod, _POD_NAMESPACE),
                _text_field(pod, _POD_NAME),
                _text_field(container, _CONTAINER_NAME),
                device,
                claim,
            )
            for pod in _child_messages(message, _PODS)
            for container in _child_messages(pod, _POD_CONTAINERS)
            for device, claim in _container_devices(container)
        )
    except (IndexError, ValueError) as error:
        raise SourceError(f"not a pod-resources answer: {error}") from error


def allocatable(path: Path, timeout: float = 5.0) -> frozenset[DeviceName]:
    """Ask the kubelet what it may give out (Kubernetes 1.23 and newer). Raises SourceError."""
    from exporter.attribution.kubernetes import grpc_unary  # noqa: PLC0415 - as above

    return decode_allocatable(grpc_unary.call(path, ALLOCATABLE, timeout=timeout))


def decode_allocatable(message: bytes) -> frozenset[DeviceName]:
    """NVIDIA devices of an AllocatableResourcesResponse. Raises SourceError where it is not one."""
    try:
        found = (name for devices in _child_messages(message, _ALLOCATABLE_DEVICES) for name in _of_plugin(devices))
        return frozenset(found) - {DeviceName()}
    except (IndexError, ValueError) as error:
        raise SourceError(f"not a pod-resources answer: {error}") from error


def _container_devices(container: bytes) -> Iterator[tuple[DeviceName, str]]:
    """Yield devices, each with its claim."""
    for devices in _child_messages(container, _CONTAINER_DEVICES):
        for device in _of_plugin(devices):
            yield device, ""
    for dynamic in _child_messages(container, _CONTAINER_DYNAMIC):
        name = f"{_text_field(dynamic, _DYNAMIC_NAMESPACE)}/{_text_field(dynamic, _DYNAMIC_NAME)}"
        for claim in _child_messages(dynamic, _DYNAMIC_CLAIMS):
            if _text_field(claim, _CLAIM_DRIVER) == _DRA_DRIVER:
                for device in _device_names(_text_field(claim, _CLAIM_DEVICE), ours=True):
                    yield device, name


def _of_plugin(devices: bytes) -> Iterator[DeviceName]:
    ours = _text_field(devices, _DEVICES_RESOURCE).startswith(_NVIDIA)
    for text in _child_messages(devices, _DEVICES_IDS):
        yield from _device_names(text.decode(), ours=ours)


def _device_names(text: str, *, ours: bool) -> Iterator[DeviceName]:
    """The device; one without any name where it is NVIDIA's and its id is not understood."""
    found = device_of(text)
    if found or ours:
        yield found or DeviceName()


def _text_field(message: bytes, number: int) -> str:
    return bounded(b"".join(_child_messages(message, number)).decode())


def _child_messages(message: bytes, number: int) -> list[bytes]:
    return [value for field, value in _message_fields(message) if field == number]


def _message_fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Length-delimited fields in their order; numbers are stepped over, none of them matters here."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        wire = key & 7
        if wire == _BYTES:
            length, at = _read_varint(message, at)
            if at + length > len(message):
                raise ValueError("a field longer than its message")
            yield key >> 3, message[at : at + length]
            at += length
        elif wire == _VARINT:
            _, at = _read_varint(message, at)
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {wire}")


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:  # noqa: PLR2004 - the high bit reports that more follow
            return value, at
        if shift > 63:  # noqa: PLR2004 - ten bytes hold 64 bits
            raise ValueError("a number that does not end")
