"""The default page has what rules, panels and the report read, and at most 120 series a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.collectors import COLLECTORS
from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.core.families import Block, Shown
from exporter.daemon import assembly
from exporter.daemon.config import DaemonConfig
from exporter.exposition.page import HIDDEN_METRICS, Renderer
from exporter.sampling.blocks import device_blocks
from exporter.sampling.families import families
from exporter.sampling.gpus import Gpu
from exporter.sampling.reader import read_gpu
from exporter.tools.simulator import simulate

ROOT = Path(__file__).resolve().parents[2]
NAMES = {family.name for family in families()}
READERS = {
    "rules": ("deploy/prometheus/rules", "*.yaml"),
    "dashboards": ("dashboards/json", "*.json"),
    "report": ("exporter/tools/report", "*.py"),
    "demo": ("deploy/demo", "*.py"),
    "runbooks": ("docs/runbooks", "*.md"),
}
OTHER_SERIES = 30
"""Of a GPU: its states, XIDs, faults and owner, which no device collector has."""


def read_by(reader: str) -> Mapping[str, str]:
    """Return the metrics that a reader names, each with a piece of the text around it."""
    folder, pattern = READERS[reader]
    found: dict[str, str] = {}
    for path in (ROOT / folder).rglob(pattern):
        for line in path.read_text().splitlines():
            found.update({name: line.strip()[:200] for name in re.findall(r"gpu_[a-z0-9_]+", line) if name in NAMES})
    return found


def series(blocks: Iterable[Block], hide: Sequence[str] = HIDDEN_METRICS) -> list[str]:
    page = Renderer(hide).render(blocks, "")[1].decode()
    return [line for line in page.splitlines() if line.startswith("gpu_")]


def gpu_blocks(model: str) -> Sequence[Block]:
    driver = simulate(f"1x{model}:training", lambda: 1_700_000_000.0)
    driver.open()
    device = driver.devices()[0]
    states = read_gpu(device, {}, COLLECTORS, 1_700_000_000.0, 0.0, {}).states
    return device_blocks(Gpu(device, states, answered=0.0), 0.0, 10.0)


def hidden(*arguments: str) -> Sequence[str]:
    return assembly.hidden(load(DaemonConfig, arguments, {}))


@pytest.mark.parametrize("reader", READERS)
def test_metric_that_is_read_is_shown_by_default(reader: str) -> None:
    assert {name: where for name, where in read_by(reader).items() if name in HIDDEN_METRICS} == {}


def test_hidden_metrics_exist_and_are_named_once() -> None:
    assert set(HIDDEN_METRICS) <= NAMES
    assert len(set(HIDDEN_METRICS)) == len(HIDDEN_METRICS)


@pytest.mark.parametrize("reader", ["rules", "dashboards"])
def test_no_mean_or_count_is_taken_of_series_that_are_shown_while_not_zero(reader: str) -> None:
    folder, pattern = READERS[reader]
    text = "\n".join(path.read_text() for path in (ROOT / folder).rglob(pattern))
    sparse = [family.name for family in families() if family.shown is Shown.NONZERO]

    assert sparse
    for name in sparse:
        assert not re.findall(rf"\b(?:avg|count|min|quantile|avg_over_time)\b[^,;\n]{{0,60}}\b{name}\b", text), name


@pytest.mark.parametrize("model", ["H200", "A100", "L40S", "V100", "B200"])
def test_gpu_has_at_most_120_series_by_default(model: str) -> None:
    assert 20 < len(series(gpu_blocks(model))) + OTHER_SERIES <= 120


def test_default_list_is_replaced_by_the_given_one() -> None:
    blocks = gpu_blocks("H200")

    assert hidden() == HIDDEN_METRICS
    assert {"gpu_power_watts", "gpu_memory_free_bytes"} <= _names(series(blocks, hidden("--metrics.hide=")))
    assert _names(series(blocks, hidden("--metrics.hide=gpu_power_*,gpu_ecc_*"))) & {
        "gpu_power_watts",
        "gpu_memory_free_bytes",
    } == {"gpu_memory_free_bytes"}


def test_name_of_no_metric_is_refused_in_one_line() -> None:
    with pytest.raises(
        ConfigError,
        match=r"^--metrics.hide: expected names of metrics .*, got gpu_power_watt, did you mean gpu_power_watts$",
    ):
        hidden("--metrics.hide", "gpu_power_watt")


def test_relabelling_example_drops_nothing_that_rules_and_report_read() -> None:
    read = {**read_by("rules"), **read_by("report")}

    assert {name: read[name] for name in _dropped() if name in read} == {}


def test_every_alternative_of_the_relabelling_example_drops_a_metric() -> None:
    for rule in _relabelling():
        if rule["source_labels"] == ["__name__"]:
            for alternative in re.split(r"\|(?![^(]*\))", rule["regex"]):
                assert any(re.fullmatch(alternative, name) for name in NAMES), alternative


def _dropped() -> set[str]:
    patterns = [rule["regex"] for rule in _relabelling() if rule["source_labels"] == ["__name__"]]
    return {name for name in NAMES if any(re.fullmatch(pattern, name) for pattern in patterns)}


def _relabelling() -> Sequence[Mapping[str, Any]]:
    page = (ROOT / "docs/explanation/cost.md").read_text()
    example = page.partition("```yaml\nmetric_relabel_configs:")[2].partition("```")[0]
    found: Mapping[str, Any] = yaml.safe_load(f"metric_relabel_configs:{example}")
    rules: Sequence[Mapping[str, Any]] = found["metric_relabel_configs"]
    return rules


def _names(lines: Iterable[str]) -> set[str]:
    return {line.partition("{")[0] for line in lines}
