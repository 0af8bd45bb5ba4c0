"""Jobs that hold parts of GPUs: slurmdbd counts shards and MPS apart from GPUs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from exporter.tools.report.accounting.sacct import parse
from exporter.tools.report.summaries.store import MADE
from tests.unit.summaries.test_worker import Site


@pytest.mark.parametrize("tres", ["cpu=1,gres/shard=4,node=1", "gres/mps=50,mem=1G", "gres/gpu=1,gres/shard=1"])
def test_job_with_shards_or_mps_held_gpus(tres: str) -> None:
    (job,) = parse(f"7||7{'|' * 15}{tres}|\n")

    assert job.shared
    assert job.allocated_gpus


@pytest.mark.parametrize("tres", ["", "cpu=4,node=1", "gres/shard=0", "gres/nic=1"])
def test_job_without_any_part_of_a_gpu_held_none(tres: str) -> None:
    (job,) = parse(f"7||7{'|' * 15}{tres}|\n")

    assert not job.allocated_gpus


@pytest.mark.parametrize("noted", [True, False])
def test_job_on_shards_has_its_summary(tmp_path: Path, noted: bool) -> None:  # noqa: FBT001 - pytest's way
    site = Site(tmp_path)
    site.ends("7", gpus=0.0, noted=noted)
    site.known["7"] = replace(site.known["7"], shared=True)
    site.round()

    assert site.store.counts() == {MADE: 1}
    site.store.close()
