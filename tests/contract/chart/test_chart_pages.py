"""Pages about Kubernetes: their commands render, their values and files exist. A page of a platform is one screen."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract.chart.conftest import CHART, ROOT, One, Render, Values

PLATFORMS = sorted((ROOT / "docs/kubernetes").glob("*.md"))
PAGES = [*PLATFORMS, *sorted((ROOT / "docs/how-to").glob("*.md"))]
SCREEN = 55
"""Lines of a page, tables included."""
KEYS: Values = yaml.safe_load((CHART / "values.yaml").read_text())


def blocks(page: Path, language: str = "") -> list[str]:
    return re.findall(rf"^```(?:{language})\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Return the command lines of a page that call Helm."""
    lines = (line for block in blocks(page, "|sh") for line in block.replace("\\\n", " ").splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith("helm ")]


def installs(page: Path) -> list[list[str]]:
    return [each for each in commands(page) if each[1] == "install" and "build/gpu-exporter" in each]


def assigned(*pairs: str) -> Values:
    """As `--set` means them."""
    made: Values = {}
    for pair in pairs:
        path, _, text = pair.partition("=")
        *above, last = path.split(".")
        at = made
        for key in above:
            at = at.setdefault(key, {})
        at[last] = yaml.safe_load(text)
    return made


def merged(*all_: Values) -> Values:
    made: Values = {}
    for each in all_:
        for key, value in each.items():
            both = isinstance(value, dict) and isinstance(made.get(key), dict)
            made[key] = merged(made[key], value) if both else value
    return made


def given(command: list[str]) -> Values:
    """The values that a command gives to Helm."""
    words = list(itertools.pairwise(command))
    files: list[Values] = [yaml.safe_load((ROOT / name).read_text()) for flag, name in words if flag == "-f"]
    return merged(*files, assigned(*(pair for flag, told in words if flag == "--set" for pair in told.split(","))))


INSTALLS = [(str(page.relative_to(ROOT)), command) for page in PAGES for command in installs(page)]


@pytest.mark.parametrize(("page", "command"), INSTALLS, ids=[page for page, _ in INSTALLS])
def test_install_of_the_page_renders(page: str, command: list[str], render: Render, one: One) -> None:
    image = one(render(given(command)), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]["image"]

    assert re.match(r"[A-Za-z.-]*(REGISTRY|NAME|REGION)[A-Za-z./-]*/gpu-exporter:", image), page


@pytest.mark.parametrize(("page", "command"), INSTALLS, ids=[page for page, _ in INSTALLS])
def test_install_of_the_page_has_a_namespace_to_go_to(page: str, command: list[str]) -> None:
    text = (ROOT / page).read_text()
    made = re.search("^(kubectl create namespace|oc new-project) gpu-exporter$", text, re.MULTILINE)

    assert made or "--create-namespace" in command


def named_values(page: Path) -> list[str]:
    """What stands in backquotes and begins like a value of the chart."""
    quoted = re.findall(r"`([a-zA-Z]+(?:\.[a-zA-Z]+)*(?:=[^`\s]*)?)`", page.read_text())
    return [each for each in quoted if re.split("[.=]", each)[0] in KEYS and re.search("[.=]", each)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_values_that_the_page_names_are_values_of_the_chart(page: Path) -> None:
    missing = []
    for each in named_values(page):
        at: Any = KEYS
        for key in each.partition("=")[0].split("."):
            known = isinstance(at, dict) and key in at
            if not known:
                missing.append(each)
                break
            at = at[key]

    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_the_page_names_are_there(page: Path) -> None:
    quoted = re.findall(r"(?<![\w/.])((?:presets|helm|deploy|docs)/[\w./-]*\w)", page.read_text())
    places = [(ROOT / each, CHART / each) for each in quoted if "gpu-exporter/gpu-exporter" not in each]

    assert [str(there[0]) for there in places if not any(each.exists() for each in there)] == []


@pytest.mark.parametrize("page", PLATFORMS, ids=lambda page: page.name)
def test_page_is_one_screen(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= SCREEN


def test_values_in_the_objects_of_gitops_render(render: Render, one: One) -> None:
    (argo, flux) = (yaml.safe_load(each) for each in blocks(ROOT / "docs/kubernetes/gitops.md", "yaml"))

    for values in (argo["spec"]["source"]["helm"]["valuesObject"], flux["spec"]["values"]):
        assert one(render(values), "DaemonSet")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    source, spec = argo["spec"]["source"], flux["spec"]["chart"]["spec"]
    for name, version in ((source["chart"], source["targetRevision"]), (spec["chart"], spec["version"])):
        assert (name, version) == (chart["name"], chart["version"])
