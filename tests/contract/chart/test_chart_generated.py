"""Files that follow from others are what their sources say; the options the chart passes exist."""

from __future__ import annotations

import base64
import gzip
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from exporter.config.load import load
from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from helm import generate, manifests, pack, reference, schema
from tests.contract.chart import coherence, podsecurity, strict_yaml
from tests.contract.chart.conftest import CHART, FIXTURES, PRESETS, ROOT, Files, One, Render, Values, packed

AGAIN = "run `make chart`"


def test_generated_files_are_up_to_date() -> None:
    for path, text in {**generate.files(), **generate.rendered(packed())}.items():
        assert (ROOT / path).read_text() == text, f"{path}: {AGAIN}"


def test_packaged_chart_has_rules_and_dashboards(tmp_path: Path) -> None:
    helm_python.package(str(packed()), destination=str(tmp_path))
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as packaged:
        names = {name.removeprefix("gpu-exporter/") for name in packaged.getnames()}

    files = f"{pack.SUBCHART}/"
    dashboards = {f"{files}dashboards/{path.name}" for path in (ROOT / "dashboards/json").glob("*.json")}
    rules = {f"{files}rules/{name}.yaml" for name in ("gpu-alerts", "gpu-recording", "alert-values")}
    presets = {f"presets/{path.name}" for path in PRESETS.values()}
    assert dashboards
    assert dashboards | rules | presets | {"README.md", "templates/tests/scrape.yaml"} <= names
    assert not [name for name in names if name.startswith("ci/")]


def test_chart_that_is_not_packed_is_refused_with_one_line() -> None:
    with helm_python.Chart.load(str(CHART)) as chart, pytest.raises(helm_python.HelmRenderError) as refused:
        chart.render({}, name="rel", namespace="mon")

    assert "`make chart` writes the chart to build/gpu-exporter" in str(refused.value)
    assert len(str(refused.value).strip().splitlines()) == 1


def secret_size(rendered: Mapping[str, str]) -> int:
    """Return the size of a release as Helm stores it: what was rendered, and each file that is not of a subchart."""
    left_out = ("charts", "ci", "README.md.tmpl")  # the last two by .helmignore
    paths = [path for path in packed().rglob("*") if path.is_file()]
    own = [path for path in paths if path.relative_to(packed()).parts[0] not in left_out]
    files = {str(path): base64.b64encode(path.read_bytes()).decode() for path in own}
    release = {"chart": files, "manifest": "".join(rendered.values())}
    return len(base64.b64encode(gzip.compress(json.dumps(release).encode(), 9)))


@pytest.mark.parametrize(("without", "limit"), [((), 450_000), (("dashboards",), 200_000)])
def test_release_fits_into_its_secret(without: tuple[str, ...], limit: int, files: Files) -> None:
    """Helm's own limit is 1 MiB."""
    given = yaml.safe_load(FIXTURES["everything"].read_text())

    assert secret_size(files({**given, **{part: {"enabled": False} for part in without}})) < limit


def test_page_and_notes_state_the_size_of_a_release(files: Files) -> None:
    rendered = [
        files({"monitoring": {"enabled": enabled}, "dashboards": {"enabled": dashboards}})
        for enabled, dashboards in ((False, False), (True, False), (True, True))
    ]
    line = re.search(r"of at most 1 MiB: [^.]*", (CHART / "README.md").read_text())
    (notes,) = (text for path, text in rendered[2].items() if path.endswith("NOTES.txt"))

    stated = [1000 * int(number) for number in re.findall(r"(\d+) KB", line[0] if line else "")]
    assert stated == pytest.approx([secret_size(each) for each in rendered], rel=0.1)
    assert [1000 * int(number) for number in re.findall(r"(\d+) KB", notes)] == [stated[2], stated[1]]


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


def test_manifests_for_the_operator_have_every_rule() -> None:
    documents = list(strict_yaml.load_all(manifests.monitoring(packed())))
    rules = [
        rule
        for each in documents
        if each["kind"] == "PrometheusRule"
        for group in each["spec"]["groups"]
        for rule in group["rules"]
    ]
    told = [path.stem for path in (ROOT / "docs/runbooks").glob("*.md")]

    assert list(coherence.errors(documents)) == []
    assert {each["kind"] for each in documents} == {"ServiceMonitor", "PrometheusRule"}
    assert sorted(rule["alert"].lower() for rule in rules if "alert" in rule) == sorted(told)
    assert {"cluster:gpu_waste:rate5m", "alert:gpu_alert:index"} <= {rule.get("record") for rule in rules}
