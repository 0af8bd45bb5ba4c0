"""The page on attribution says what the program does."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.attribution import owner
from exporter.attribution.background_source import LAST_KNOWN_SECONDS
from exporter.attribution.containers.source import SOURCE as CONTAINERS
from exporter.attribution.join import LAST_OWNER_SECONDS
from exporter.attribution.kubernetes.owner_objects import SOURCE as KUBERNETES_OWNERS
from exporter.attribution.kubernetes.source import POD_RESOURCES
from exporter.attribution.nomad.source import SOURCE as NOMAD
from exporter.attribution.slurm import source as slurm
from exporter.attribution.slurm.scontrol import TIMEOUT_SECONDS
from exporter.attribution.source import HOLD_SECONDS
from exporter.host.process import SOURCE as USER_DATABASE
from exporter.sampling.host_view import SOURCE as HOST

PAGE = (Path(__file__).resolve().parents[3] / "docs/attribution.md").read_text()
SLURM = (slurm.MAPPING, slurm.PROGRAM, slurm.SCONTROL, slurm.STEPS, slurm.ENVIRON)
SOURCES = ("cgroup", POD_RESOURCES, "kubernetes_api", KUBERNETES_OWNERS, CONTAINERS, NOMAD, *SLURM, USER_DATABASE, HOST)


@pytest.mark.parametrize("seconds", [LAST_OWNER_SECONDS, LAST_KNOWN_SECONDS, TIMEOUT_SECONDS, HOLD_SECONDS])
def test_page_names_the_times(seconds: float) -> None:
    assert f"{seconds:g} s" in PAGE


def test_page_lists_the_sources_in_order_of_trust() -> None:
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 5]

    assert tuple(rows) == SOURCES


@pytest.mark.parametrize("trust", [owner.EXACT, owner.INFERRED, owner.LOW])
def test_page_explains_the_trusts(trust: str) -> None:
    assert f"`{trust}`" in PAGE
