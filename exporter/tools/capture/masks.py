"""What a capture shows of the machine it is of, replaced: the same name always by the same."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from exporter.tools.capture.replay import key_of

_CLUSTER = ("nvmlDeviceGetGpuFabricInfoV", "clusterUuid")
_NUMBERED = (("nvmlDeviceGetPlatformInfo", "ibGuid"), ("nvmlDeviceGetPlatformInfo", "chassisSerialNumber"))
"""Their digest could be found by trying all there can be, as that of a random UUID cannot."""
_TELLING = 6
"""Characters of a name that can be distinguished from any other text."""


def masked(capture: dict[str, Any]) -> dict[str, Any]:
    """With other serial numbers, UUIDs, PCI addresses and names of places."""
    return cast("dict[str, Any]", _masked(capture, _masks(capture)))


def _masks(capture: Mapping[str, Any]) -> dict[str, str]:
    """What to write in place of what, for every name that shows which machine this was."""
    found: dict[str, str] = {}
    for device in capture["devices"]:
        for target in (device, *device["instances"]):
            found[target["uuid"]] = _masked_uuid(target["uuid"])
        bus = device["pci_bus_id"]
        masked = f"0000:{0x10 + device['index']:02x}:00.0"
        if bus:
            found |= {f"0000{bus}".upper(): f"0000{masked}".upper(), bus.upper(): masked.upper(), bus: masked}
        for _, serial in device["calls"].get(key_of("nvmlDeviceGetSerial", ()), []):
            if isinstance(serial, str):
                found[serial] = f"{device['index']:013d}"
        for value in _told(device["calls"], *_CLUSTER):
            found[value] = hashlib.sha256(value.encode()).hexdigest()[: len(value)]
    for place in _NUMBERED:
        names = dict.fromkeys(value for device in capture["devices"] for value in _told(device["calls"], *place))
        found |= {value: f"{number:0{len(value)}d}" for number, value in enumerate(names, 1)}
    return found


def _told(calls: Mapping[str, Any], function: str, name: str) -> Iterator[str]:
    """What the driver said there: zeros are nothing."""
    for _, answer in calls.get(key_of(function, ()), []):
        recorded: Mapping[str, Any] = cast("Any", answer).get("record", {}) if isinstance(answer, dict) else {}
        value = recorded.get(name)
        if isinstance(value, str) and value.strip("0"):
            yield value


def _masked_uuid(uuid: str) -> str:
    prefix, _, rest = uuid.partition("-")
    digest = hashlib.sha256(rest.encode()).hexdigest()
    return f"{prefix}-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _masked(value: Any, masks: Mapping[str, str]) -> Any:
    """Texts alone hold names: the digits of a short serial number are in every number too."""
    telling = sorted((name for name in masks if len(name) >= _TELLING), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, telling)) or r"(?!)")

    def text(plain: str) -> str:
        return masks[plain] if plain and plain in masks else pattern.sub(lambda match: masks[match[0]], plain)

    def whole(part: Any) -> Any:
        if isinstance(part, str):
            return text(part)
        if isinstance(part, list):
            return [whole(each) for each in cast("Sequence[Any]", part)]
        if isinstance(part, dict):
            return {text(key): whole(each) for key, each in cast("dict[str, Any]", part).items()}
        return part

    return whole(value)
