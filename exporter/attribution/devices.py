"""Names of devices in reports of sources, and the targets that they mean."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from exporter.attribution.owner import Target


class DeviceName(NamedTuple):
    """One name of a device: its UUID, or its place on the node; with `gpu_instance` a MIG instance of that GPU."""

    uuid: str = ""
    driver_index: int | None = None
    """The driver's index."""
    minor: int | None = None
    """N of /dev/nvidiaN."""
    gpu_instance: int | None = None
    compute_instance: int | None = None
    profile: str = ""
    """Profile of a MIG instance, as the DRA driver writes it: `1g10gb`, `1g10gb-me`."""
    claimed: str = ""
    """Name by NVIDIA's DRA driver of a MIG instance at a place on the GPU."""
    slot: bool = False
    """True if it is one of several ids of a shared device."""


_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_IDS = (
    # legacy MIG name: parent, GPU instance, compute instance
    re.compile(rf"MIG-(?P<uuid>GPU-{_UUID})/(?P<gi>[0-9]+)/(?P<ci>[0-9]+)(?P<slot>::.*)?"),
    # device plugin; time-slicing and MPS add ::REPLICA, other sharing plugins -REPLICA
    re.compile(rf"(?P<uuid>(?:GPU|MIG)-{_UUID})(?P<slot>(?:::|-).*)?"),
    # GKE: nvidia0, nvidia0/gi1, nvidia0/vgpu3, nvidia0/gi1/vgpu3
    re.compile(r"nvidia(?P<minor>[0-9]+)(?:/gi(?P<gi>[0-9]+))?(?P<slot>/vgpu[0-9]+)?"),
    # NVIDIA's DRA driver; MIG by number of the profile, first and number of slices, or by profile, its number, slice
    re.compile(r"gpu-(?P<minor>[0-9]+)"),
    re.compile(r"(?P<claimed>gpu-(?P<minor>[0-9]+)-mig-[0-9]+-[0-9]+-[0-9]+)"),
    re.compile(r"(?P<claimed>gpu-(?P<minor>[0-9]+)-mig-(?P<profile>[0-9a-z]+(?:-[a-z]+)*)-[0-9]+-[0-9]+)"),
)


def device_of(text: str) -> DeviceName | None:
    """Parse a device id of a device plugin or DRA driver; None if it is no NVIDIA GPU's."""
    for pattern in _IDS:
        match = pattern.fullmatch(text)
        if match:
            found = {name: value or "" for name, value in match.groupdict().items()}
            minor, gi, ci = (int(found[name]) if found.get(name) else None for name in ("minor", "gi", "ci"))
            return DeviceName(
                uuid=found.get("uuid", ""),
                minor=minor,
                gpu_instance=gi,
                compute_instance=ci,
                profile=found.get("profile", ""),
                claimed=found.get("claimed", ""),
                slot=bool(found.get("slot")),
            )
    return None


class Devices:
    """Targets of this node by any of their names. A name of a GPU split by MIG means all its instances."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.targets = tuple(targets)
        self._mig = any(target.parent_uuid for target in targets)
        self._by_name: dict[tuple[str, object], list[Target]] = defaultdict(list)
        for target in targets:
            self._by_name["index", target.index].append(target)
            self._by_name["minor", target.minor].append(target)
            for uuid in {target.uuid, target.parent_uuid} - {""}:
                self._by_name["uuid", uuid.lower()].append(target)

    def find(self, name: DeviceName) -> tuple[Target, ...]:
        """Return the targets of a name; empty if it is none of this node."""
        if name.uuid:
            key: tuple[str, object] = ("uuid", name.uuid.lower())
        elif name.minor is not None:
            key = ("minor", name.minor)
        else:
            # With MIG, schedulers count instances, in an order of their own: an index alone names no device.
            key = ("index", None if self._mig else name.driver_index)
        found = self._by_name.get(key, ())
        fitting = tuple(target for target in found if _fits_name(target, name))
        # Which of several like instances a place means is not known here: no owner is better than a wrong one.
        return () if name.claimed and len(fitting) != 1 else fitting


def _fits_name(target: Target, name: DeviceName) -> bool:
    if name.gpu_instance is not None and target.gpu_instance != name.gpu_instance:
        return False
    if name.profile and target.profile.replace(".", "").replace("+", "-") != name.profile:
        return False
    return name.compute_instance is None or target.compute_instance == name.compute_instance
