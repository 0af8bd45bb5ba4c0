"""The chart, rendered by Helm's own library."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from helm import pack
from tests.contract.chart import strict_yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / pack.SOURCE
PRESETS = {path.stem: path for path in sorted((CHART / "presets").glob("*.yaml"))}
FIXTURES = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
PROFILES = {**PRESETS, **FIXTURES}

_PACKED = tempfile.TemporaryDirectory()

Values = dict[str, Any]
Documents = list[dict[str, Any]]
Files = Callable[..., dict[str, str]]
Render = Callable[..., Documents]
One = Callable[..., dict[str, Any]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "profile" in metafunc.fixturenames:
        # What is rendered is kept for a worker's other tests.
        groups = [pytest.param(name, marks=pytest.mark.xdist_group(f"chart-{name}")) for name in PROFILES]
        metafunc.parametrize("profile", groups)


@functools.cache
def packed() -> Path:
    """Return the folder of the packed chart, which is gone when the tests have ended."""
    return pack.pack(Path(_PACKED.name) / "gpu-exporter")


@pytest.fixture
def values(profile: str) -> Values:
    made: Values = yaml.safe_load(PROFILES[profile].read_text())
    return made


@functools.cache
def _files(given: str, name: str, namespace: str) -> dict[str, str]:
    with helm_python.Chart.load(str(packed())) as chart:
        made: dict[str, str] = chart.render(json.loads(given), name=name, namespace=namespace)
    return made


@functools.cache
def _objects(given: str, name: str, namespace: str) -> Documents:
    texts = sorted(_files(given, name, namespace).items())
    return [each for path, text in texts if not path.endswith(".txt") for each in strict_yaml.load_all(text)]


def _with_test(given: Values) -> Values:
    """Switch the test pod on, which is made by default only where there is a cluster to ask."""
    own = given.get("test", {})
    return {**given, "test": {"enabled": True, **own}} if isinstance(own, dict) else given


@pytest.fixture(scope="session")
def files() -> Callable[..., dict[str, str]]:
    """Rendered text by path. Raises helm_python.HelmError with Helm's own words."""

    def render(given: Values | None = None, name: str = "rel", namespace: str = "mon") -> dict[str, str]:
        return _files(json.dumps(_with_test(given or {})), name, namespace)

    return render


@pytest.fixture(scope="session")
def render() -> Callable[..., Documents]:
    """Rendered objects, the test pod included, in the order of their files. Made once for the same values."""

    def objects(given: Values | None = None, name: str = "rel", namespace: str = "mon") -> Documents:
        return _objects(json.dumps(_with_test(given or {})), name, namespace)

    return objects


@pytest.fixture(scope="session")
def one() -> Callable[..., dict[str, Any]]:
    """The only object of a kind."""

    def find(documents: Documents, kind: str) -> dict[str, Any]:
        (found,) = [document for document in documents if document["kind"] == kind]
        return found

    return find
