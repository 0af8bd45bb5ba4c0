"""The scenario files in the repository, and the page that describes simulations."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from exporter.tools.simulator import parse, simulate
from exporter.tools.simulator.models import MODELS
from exporter.tools.simulator.patterns import KINDS, PATTERNS
from exporter.tools.simulator.scenario_file import node_names

ROOT = Path(__file__).parents[3]
SCENARIOS = sorted((ROOT / "tests/scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_workload_and_fault_of_a_file_is_on_some_node(path: Path) -> None:
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    nodes = [parse(f"@{path};node={name}") for name in node_names(str(path))]

    assert {each.name for node in nodes for each in node.workloads} == {each["name"] for each in written["workloads"]}
    assert sum(len(node.faults) for node in nodes) == len(written["faults"])


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_no_two_workloads_of_a_file_hold_a_gpu_at_once(path: Path) -> None:
    for name in node_names(str(path)):
        node = parse(f"@{path};node={name}")
        for hour in range(0, 168, 2):
            allocated = [
                place for each in node.workloads if each.run(hour * 3600.0) is not None for place in each.places
            ]
            assert len(allocated) == len(set(allocated)), (name, hour)


def test_the_week_has_64_gpus_and_the_cluster_32_nodes() -> None:
    week, cluster = ROOT / "tests/scenarios/week.yaml", ROOT / "tests/scenarios/cluster.yaml"

    assert sum(len(parse(f"@{week};node={name}").gpus) for name in node_names(str(week))) == 64
    assert len(node_names(str(cluster))) == 32


@pytest.mark.parametrize("path", [ROOT / "tests/scenarios/week.yaml", ROOT / "tests/scenarios/cluster.yaml"])
def test_what_the_documentation_names_can_be_simulated_at_any_time(path: Path) -> None:
    driver = simulate(f"@{path}", lambda: 1_000_000_000.0)

    assert all(device.call("nvmlDeviceGetTotalEnergyConsumption") > 0 for device in driver.devices())


def test_the_page_names_every_model_pattern_and_fault() -> None:
    page = (ROOT / "docs/simulation.md").read_text(encoding="utf-8")

    for name in (*MODELS, *PATTERNS, *KINDS):
        assert f"`{name}`" in page
