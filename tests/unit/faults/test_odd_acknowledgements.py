"""Lines of acknowledged.jsonl that are none: each is skipped and counted, and the faults go on."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.faults import acknowledgements
from exporter.faults.model import Acknowledgement, ObservedGpu
from exporter.faults.watch import FaultTracker, FaultWatchConfig
from exporter.tools.check.acknowledge import append

GPU = ObservedGpu("GPU-0", 0, "S", "0000:00:00.0", up=True, joules=5e6, uncorrected=0.0, links=18)
GOOD = Acknowledgement("0", "nvlink_down", "ada", "bridge out", 999.0)
ODD = {
    "nested": b"[" * 100_000,
    "no float holds its time": b'{"gpu":"0","fault":"","by":"a","why":"b","time":1' + b"0" * 400 + b"}",
    "no date": b'{"gpu":"0","fault":"","by":"a","why":"b","time":Infinity}',
    "no object": b"7",
    "a list": b"[1]",
    "cut off": b'{"gpu":"0","fault"',
    "no UTF-8": b"\xff\xfe{",
    "too many digits": b"1" * 10_000,
    "an unknown fault": b'{"gpu":"0","fault":"nonsense","by":"a","why":"b","time":1}',
}


def written(folder: Path, line: bytes) -> None:
    append(folder, GOOD)
    path = folder / acknowledgements.NAME
    path.write_bytes(line + b"\n" + path.read_bytes() + line + b"\n")


@pytest.mark.parametrize("line", ODD.values(), ids=ODD)
def test_odd_line_is_skipped_and_counted(line: bytes, tmp_path: Path) -> None:
    written(tmp_path, line)

    assert acknowledgements.read_acknowledgements(tmp_path) == acknowledgements.Read((GOOD,), 2)


@given(line=st.binary(max_size=200))
def test_no_line_ends_the_reading(line: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("state")
    written(folder, line)

    assert GOOD in acknowledgements.read_acknowledgements(folder).entries


@pytest.mark.parametrize("line", ODD.values(), ids=ODD)
def test_odd_line_leaves_faults_latching_and_is_reported(
    line: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, line)
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))

    with caplog.at_level(logging.WARNING):
        for second in (0.0, 5.0, 10.0):
            watch.observe(1000.0 + second, second, (replace(GPU, xids={79: 1000.0}),), (), driver=True)

    assert [fault.evidence for fault in watch.status.faults] == ["XID 79"]
    assert watch.status.sources["acknowledgements"] is False
    assert [record.message for record in caplog.records if "acknowledged.jsonl" in record.message] == [
        f"{tmp_path / acknowledgements.NAME}: 2 lines are no acknowledgements, and are skipped"
    ]


def test_source_of_acknowledgements_is_shown_only_while_it_fails(tmp_path: Path) -> None:
    append(tmp_path, GOOD)
    watch = FaultTracker(FaultWatchConfig(tmp_path, boot="b"))

    watch.observe(1000.0, 0.0, (GPU,), (), driver=True)

    assert "acknowledgements" not in watch.status.sources
