"""Answers of a kubelet newer than this program: fields it does not know, of every wire type, are stepped over."""

from __future__ import annotations

import pytest

from exporter.attribution.background_source import SourceError
from exporter.attribution.devices import DeviceName
from exporter.attribution.kubernetes.pod_resources import decode, decode_allocatable
from tests.attribution_kit.kubelet import GivenPod, message

UUID = "GPU-00000000-0000-0000-0000-000000000001"
KNOWN = message((1, message((1, "nvidia.com/gpu"), (2, UUID))))
NUMBER, TEXT = message((9, 1 << 40)), message((9, "new"))
FIXED64, FIXED32 = bytes([9 << 3 | 1]) + b"\x0a" * 8, bytes([9 << 3 | 5]) + b"\x0a" * 4
GROUP = bytes([9 << 3 | 3])


@pytest.mark.parametrize("unknown", [NUMBER, TEXT, FIXED64, FIXED32], ids=["number", "text", "64 bits", "32 bits"])
def test_field_that_is_not_known_costs_no_other(unknown: bytes) -> None:
    assert decode_allocatable(unknown + KNOWN + unknown) == {DeviceName(uuid=UUID)}


@pytest.mark.parametrize("broken", [GROUP, KNOWN[:-1], b"\x08" + b"\xff" * 11])
def test_what_is_no_such_answer_is_refused(broken: bytes) -> None:
    with pytest.raises(SourceError, match="not a pod-resources answer: "):
        decode_allocatable(broken)


def test_names_of_an_odd_kubelet_are_printable() -> None:
    pod = GivenPod("m\nl", "tr\x1bain", "c" * 1000, [UUID])
    (found,) = decode(message((1, pod.encoded())))

    assert (found.namespace, found.pod, found.container) == (r"m\nl", r"tr\x1bain", "c" * 256)
