"""Files that follow from others are what their sources say; the options the chart passes exist."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import helm_python
import yaml

from exporter.config.load import load
from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from helm import generate, manifests, reference, schema
from tests.contract.chart import coherence, podsecurity, strict_yaml
from tests.contract.chart.conftest import CHART, PRESETS, ROOT, One, Render, Values

AGAIN = "run `make chart`"


def test_generated_files_are_up_to_date() -> None:
    for path, text in {**generate.files(), **generate.rendered()}.items():
        assert (ROOT / path).read_text() == text, f"{path}: {AGAIN}"


def test_packaged_chart_has_rules_and_dashboards(tmp_path: Path) -> None:
    helm_python.package(str(CHART), destination=str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as packaged:
        names = {name.removeprefix("gpu-exporter/") for name in packaged.getnames()}

    dashboards = {f"files/dashboards/{path.name}" for path in (ROOT / "dashboards/json").glob("*.json")}
    assert dashboards
    presets = {f"presets/{path.name}" for path in PRESETS.values()}
    assert (
        dashboards | presets | {"files/rules/gpu-alerts.yaml", "files/rules/gpu-recording.yaml", "README.md"} <= names
    )
    assert not [name for name in names if name.startswith("ci/")]
    assert archive.stat().st_size < 300_000  # a release, chart included, must fit into a Secret of 1 MiB


def test_every_value_is_described() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    described = {row.path for row in reference.rows((CHART / "values.yaml").read_text())}

    def leaves(at: Any, path: tuple[str, ...] = ()) -> Iterator[str]:
        if ".".join(path) in described or not isinstance(at, dict):
            yield ".".join(path)
        else:
            for key, child in at.items():
                yield from leaves(child, (*path, key))

    assert set(leaves(values)) == described


def test_arguments_and_configuration_are_options_of_the_exporter(
    values: Values, render: Render, one: One, tmp_path: Path
) -> None:
    documents = render(values)
    container = one(documents, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    arguments = [each for each in container["args"] if not each.startswith("--config.file=")]
    for each in documents:
        if each["kind"] == "ConfigMap" and "config.yaml" in each["data"]:
            (tmp_path / "config.yaml").write_text(each["data"]["config.yaml"])
            arguments.append(f"--config.file={tmp_path / 'config.yaml'}")

    config = load(DaemonConfig, arguments, {})

    assert config.attribution.kubernetes.mode in {"on", "off"}


def test_options_the_chart_sets_exist() -> None:
    known = {option.name for option in options_of(DaemonConfig)}

    assert known >= schema.SET_BY_CHART


def test_defaults_of_port_and_path_are_the_exporters() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    defaults = {option.name: option.default_value for option in options_of(DaemonConfig)}

    assert values["port"] == defaults["web.listen-address"][1]
    assert values["web"]["telemetryPath"] == defaults["web.telemetry-path"]


def test_manifests_state_the_level_of_their_namespace() -> None:
    for file, level, _, _ in manifests.FILES:
        documents = strict_yaml.load_all((ROOT / "deploy/kubernetes" / file).read_text())
        assert list(coherence.errors(documents)) == []
        for each in documents:
            if each["kind"] == "DaemonSet":
                assert podsecurity.level(each["spec"]["template"]["spec"]) == level
