"""What is a text stays one: YAML makes a number of a name such as 70707, and a truth of one such as `on`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from tests.contract.chart import custom_resources
from tests.contract.chart.conftest import CHART, Files, One, Render, Values
from tests.contract.chart.test_chart_profiles import NEWEST

NUMBER = 70707
EVERYTHING: Values = yaml.safe_load((CHART / "ci/everything-values.yaml").read_text())


def texts(at: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Path of every value that is a text by default."""
    for key, child in at.items():
        if isinstance(child, dict):
            yield from texts(child, (*path, key))
        elif isinstance(child, str):
            yield (*path, key)


def changed(at: Values, path: tuple[str, ...], value: str) -> Values:
    first, *rest = path
    return {**at, first: changed(at.get(first, {}), tuple(rest), value) if rest else value}


def holds(at: Any, number: int) -> bool:
    if isinstance(at, dict):
        return any(holds(each, number) for pair in at.items() for each in pair)
    return any(holds(each, number) for each in at) if isinstance(at, list) else at == number


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["default", "everything"])
@pytest.mark.parametrize("name", [str(NUMBER), "on", "null", "0x1f", "1e5"])
def test_release_and_namespace_may_be_called_anything(values: Values, name: str, render: Render) -> None:
    own_names = {**values, "fullnameOverride": "", "extraObjects": []}
    for document in (*render(own_names, name=name), *render(own_names, namespace=name)):
        if (document["apiVersion"], document["kind"]) in custom_resources.VALIDATORS:
            assert list(custom_resources.errors(document)) == []
        else:
            kubernetes_validate.validate(document, NEWEST, strict=True)
        assert document["metadata"]["labels"]["app.kubernetes.io/instance"] in {name, "rel"}


def test_text_that_looks_like_a_number_stays_a_text(render: Render) -> None:
    became_numbers: list[str] = []
    for path in texts(yaml.safe_load((CHART / "values.yaml").read_text())):
        try:
            documents = render(changed(EVERYTHING, path, str(NUMBER)))
        except helm_python.HelmError:
            continue  # refused: the other tests' subject
        if holds(documents, NUMBER):
            became_numbers.append(".".join(path))

    assert became_numbers == []


def test_host_path_with_any_letter_is_that_path(render: Render) -> None:
    odd = "/srv/a,b]:{c}#d"
    for value in ("kubeletDir", "logsDir"):
        (spec,) = (
            each["spec"]["template"]["spec"]
            for each in render({"attribution": {"pods": {value: odd}}})
            if each["kind"] == "DaemonSet"
        )
        paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert paths & {odd, f"{odd}/pod-resources"}


@pytest.mark.parametrize("quantity", ["65536Ki", "1.5Gi", "64M", "67108864", "6e7", "1E8", "100000000u", ".5Gi"])
def test_quantity_may_be_written_as_kubernetes_writes_it(quantity: str, render: Render, one: One) -> None:
    given = {"resources": {"limits": {"memory": quantity}}}
    container = one(render(given), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]

    assert container["resources"]["limits"]["memory"] == quantity


@pytest.mark.parametrize("duration", ["30s1m", "1h1d", "1m1m", ""])
def test_duration_that_prometheus_cannot_read_is_refused(duration: str, files: Files) -> None:
    for path in ("rules.GpuAllocatedIdle.window", "rules.GpuAllocatedIdle.for", "interval"):
        given: Any = duration
        for key in reversed(("prometheusRule", "alerts", *path.split("."))):
            given = {key: given}

        # One such rule keeps all of a file from loading.
        with pytest.raises(helm_python.HelmError):
            files(given)


@pytest.mark.parametrize("duration", ["1h30m", "1w2d", "90s", "1y", "500ms"])
def test_duration_that_prometheus_can_read_is_taken(duration: str, render: Render) -> None:
    alerts = {"rules": {"GpuAllocatedIdle": {"window": duration, "for": duration}}}

    assert render({"prometheusRule": {"enabled": True, "alerts": alerts}, "serviceMonitor": {"interval": duration}})


@pytest.mark.parametrize("duration", ["4m59s", "1m30s", "90s", "15s500ms"])
def test_interval_shorter_than_five_minutes_is_taken(duration: str, render: Render) -> None:
    assert render({"prometheusRule": {"enabled": True, "alerts": {"interval": duration}}})
