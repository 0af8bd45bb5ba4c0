"""The reference in docs/ is what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from exporter.sampling.families import families
from exporter.tools.reference.pages import PAGES

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_page_is_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == PAGES[page](), "run `make reference`"


def rows() -> dict[str, list[str]]:
    lines = [line for line in (DOCS / "metrics.md").read_text().splitlines() if line.startswith("| `gpu_")]
    return {cells[0].strip("`"): cells for line in lines if (cells := re.split(r" (?<!\\)\| ", line.strip("| ")))}


def test_every_metric_says_how_stable_it_is_and_what_it_is_made_from() -> None:
    found = rows()

    assert found.keys() == {family.name for family in families()}
    assert {cells[4] for cells in found.values()} == {"stable", "experimental"}
    assert [name for name, cells in found.items() if len(cells) != 6 or not cells[5]] == []


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("gpu_power_watts", "nvmlDeviceGetPowerUsage"),
        ("gpu_busy_seconds_total", "nvmlDeviceGetSamples, nvmlDeviceGetUtilizationRates"),
        ("gpu_recovery_action", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),
        ("gpu_fan_speed_ratio", "nvmlDeviceGetFanSpeed_v2, nvmlDeviceGetNumFans"),
        ("gpu_pcie_replays_total", "nvmlDeviceGetPcieReplayCounter, NVML_FI_DEV_PCIE_REPLAY_COUNTER"),
    ],
)
def test_calls_are_those_the_metric_needs(name: str, calls: str) -> None:
    assert rows()[name][5] == calls


def test_no_family_is_declared_twice() -> None:
    names = [family.name for family in families()]

    assert sorted(set(names)) == sorted(names)
