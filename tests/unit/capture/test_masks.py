"""What a masked capture must not tell: nothing of it may be found by trying what there can be."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from exporter.tools.capture.record import masked

PLATFORM = '["nvmlDeviceGetPlatformInfo"]'


def _device(index: int, chassis: str, guid: str) -> dict[str, Any]:
    place = {"record": {"ibGuid": guid, "chassisSerialNumber": chassis, "slotNumber": 12}}
    named = {"index": index, "uuid": f"GPU-{index}", "pci_bus_id": f"0000:0{index}:00.0", "instances": []}
    return {**named, "calls": {PLATFORM: [[0.0, place]]}}


def test_serial_number_of_a_chassis_cannot_be_found_by_trying_all() -> None:
    places = (("1820325191207", "0002c903000f1e2d"), ("1820325191207", "0002c903000f1e2e"), ("C1", "0" * 16))
    capture = {"devices": [_device(index, *place) for index, place in enumerate(places)], "events": []}

    after = masked(capture)

    told = [device["calls"][PLATFORM][0][1]["record"] for device in after["devices"]]
    assert [each["chassisSerialNumber"] for each in told] == ["0000000000001", "0000000000001", "02"]
    assert [each["ibGuid"] for each in told] == ["0000000000000001", "0000000000000002", "0" * 16]
    assert [each["slotNumber"] for each in told] == [12, 12, 12]
    tried = {hashlib.sha256(name.encode()).hexdigest()[: len(name)] for place in places for name in place}
    assert not [name for name in tried if len(name) > 2 and name in json.dumps(after)]


def test_masked_uuid_is_one_in_form_and_another_for_each_gpu() -> None:
    uuids = [f"GPU-1f2e3d4c-0000-1111-2222-{number:012d}" for number in range(3)]
    devices = [{**_device(index, "C1", "0" * 16), "uuid": uuid} for index, uuid in enumerate(uuids)]

    after = [device["uuid"] for device in masked({"devices": devices, "events": []})["devices"]]

    assert len({*after, *uuids}) == 6
    assert all(re.fullmatch(r"GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid) for uuid in after)
