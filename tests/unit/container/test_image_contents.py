"""The image's pinned contents agree with the project."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def listed(heading: str) -> list[str]:
    """The strings of a list in pyproject.toml (tomllib is not in Python 3.10)."""
    found = re.search(rf"^{heading} = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r'^  "([^"]+)"', found[1], re.MULTILINE)


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return found[0].lower()


def pins(file: str) -> dict[str, str]:
    """Return the version of each requirement, and fail where one has no hash."""
    text = (ROOT / file).read_text()
    found = re.findall(r"^([a-z0-9._-]+)==(\S+)(?: ;.*)? \\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(found) == len(re.findall(r"^[^\s#]", text, re.MULTILINE)), file
    return dict(found)


def test_every_dependency_is_pinned_by_hash() -> None:
    assert {name(each) for each in listed("dependencies")} <= pins("deploy/container/requirements.txt").keys()


def test_pins_are_those_the_tests_run_with() -> None:
    tested = dict(each.split("==") for each in listed("dev") if re.fullmatch(r"[\w-]+==[\w.]+", each))
    pinned = pins("deploy/container/requirements.txt")

    assert {each: version for each, version in pinned.items() if tested.get(each, version) != version} == {}


@pytest.mark.parametrize("file", ["deploy/container/build-requirements.txt", "deploy/package/requirements.txt"])
def test_build_backend_is_pinned_to_what_the_project_asks_for(file: str) -> None:
    pinned = pins(file)

    assert 'requires = ["hatchling>=1.27", "markdown-it-py>=4,<5"]' in (ROOT / "pyproject.toml").read_text()
    assert pins("deploy/demo/requirements.txt").items() <= pinned.items()  # what renders the runbooks
    assert {"markdown-it-py", "mdurl"} == pins("deploy/demo/requirements.txt").keys()
    assert pinned["hatchling"].startswith("1.27.")
    assert {"packaging", "pathspec", "pluggy", "trove-classifiers"} <= pinned.keys()  # all that hatchling needs


def test_bases_of_the_containerfile_are_one_debian_release_with_its_python() -> None:
    containerfile = (ROOT / "deploy/container/Containerfile").read_text()
    packages = (ROOT / "deploy/container/debian-packages.txt").read_text()

    assert "ARG BASE=docker.io/library/debian:12-slim\n" in containerfile
    assert "debootstrap --variant=minbase bookworm " in (ROOT / "deploy/container/build.sh").read_text()
    assert set(re.findall(r"python(3\.\d+)", containerfile + packages)) == {"3.11"}
