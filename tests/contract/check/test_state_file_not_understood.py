"""`gpu-exporter check` with a state file of another version: unknown, until somebody has read the file set aside."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.core.clock import UnixTime
from exporter.faults import state_file
from exporter.faults.model import Fault, FaultKind, FaultState, GpuRecord, RepairAction
from exporter.faults.watch import NAME
from tests.contract.check.node import CheckedNode, FakeNvml
from tests.exporter_process import exporter

QUIET = {"memory_used": 0, "utilization": 0}
FAULTY = Fault("GPU-x", 0, FaultKind.ECC, "1 uncorrectable error", RepairAction.RESET, UnixTime(1000.0))


def newer(text: str) -> str:
    return text.replace('"version":1', '"version":2')


def with_unknown_field(text: str) -> str:
    return text.replace('{"index":0,', '{"colour":"green","index":0,')


def with_unknown_kind(text: str) -> str:
    return text.replace('"kind":"ecc_uncorrectable"', '"kind":"ecc_parity"')


def signed(text: str) -> str:
    """Return the text as the exporter that wrote it would have: with its own checksum, if it is whole."""
    body, found, _ = text.rpartition(',"checksum":"')
    return f'{body}{found}{zlib.crc32(body.encode()):08x}"}}' if found else text


def cut_off(text: str) -> str:
    return text[: text.index('"evidence"')]


@pytest.mark.parametrize(
    ("change", "cause"),
    [(newer, "version"), (with_unknown_field, "unknown"), (with_unknown_kind, "unknown"), (cut_off, "damaged")],
)
def test_check_with_state_file_not_understood_is_unknown(
    change: Callable[[str], str], cause: str, tmp_path: Path, fake_nvml: FakeNvml
) -> None:
    node = CheckedNode(tmp_path, fake_nvml(QUIET).environment)
    faults = (FAULTY,) if change in (with_unknown_kind, cut_off) else ()
    state_file.write_state(node.state / NAME, FaultState("b", {"GPU-x": GpuRecord(0)}, faults))
    text = signed(change((node.state / NAME).read_text()))
    (node.state / NAME).write_text(text)

    direct = node.check()
    with exporter(tmp_path, *node.paths, environment={**os.environ, **node.environment}) as running:
        running.until("the state", "gpu_exporter_faults_incomplete", 1.0, cause=cause)
        by_url = node.check_url(running.url)

    assert direct == by_url
    assert direct.status == 3
    assert direct.headline == f"unknown: known faults may be missing: the state file was not understood ({cause})"
    assert (node.state / f"{NAME}.{cause}").read_text() == text
