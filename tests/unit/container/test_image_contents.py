"""The image's pinned contents agree with the project, and the bill of materials with itself."""

import json
import re
from pathlib import Path

from deploy.container import build, sbom

ROOT = Path(__file__).resolve().parents[3]
REQUIREMENTS = (ROOT / "deploy/container/requirements.txt").read_text()


def listed(heading: str) -> list[str]:
    """The strings of a list in pyproject.toml (tomllib is not in Python 3.10)."""
    found = re.search(rf"^{heading} = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return re.findall(r'^  "([^"]+)"', found[1], re.MULTILINE)


def name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found
    return found[0].lower()


def test_every_dependency_is_pinned_by_hash() -> None:
    pinned = dict(re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", REQUIREMENTS, flags=re.MULTILINE))

    assert {name(each) for each in listed("dependencies")} <= pinned.keys()
    assert all(
        re.search(rf"^{re.escape(each)}==\S+ \\\n +--hash=sha256:", REQUIREMENTS, re.MULTILINE) for each in pinned
    )


def test_pins_are_those_the_tests_run_with() -> None:
    tested = dict(each.split("==") for each in listed("dev") if re.fullmatch(r"[\w-]+==[\w.]+", each))
    pinned = dict(re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", REQUIREMENTS, flags=re.MULTILINE))

    assert {each: version for each, version in pinned.items() if tested.get(each, version) != version} == {}


def test_containerfile_pins_its_base_and_runs_as_nobody_without_a_shell() -> None:
    lines = (ROOT / "deploy/container/Containerfile").read_text().splitlines()

    (base,) = [line for line in lines if line.startswith("ARG PYTHON=")]
    assert re.search(r"slim-bookworm@sha256:[0-9a-f]{64}$", base)
    assert 'ENTRYPOINT ["gpu-exporter"]' in lines
    assert "USER 65534:65534" in lines


def test_both_builds_set_the_same_environment() -> None:
    text = (ROOT / "deploy/container/Containerfile").read_text()

    assert all(f"{key}={value}" in text for key, value in build.ENVIRONMENT.items() if key != "PATH")


def test_bill_of_materials_names_every_part_once() -> None:
    parts = [sbom.Part("pypi", "requests", "2.0"), sbom.Part("deb", "libc6", "2.36")]
    bill = json.loads(sbom.spdx("x", "1", parts))

    urls = [package["externalRefs"][0]["referenceLocator"] for package in bill["packages"]]
    assert urls == ["pkg:deb/debian/libc6@2.36", "pkg:pypi/requests@2.0"]
    assert len({package["SPDXID"] for package in bill["packages"]}) == 2
    assert sbom.spdx("x", "1", reversed(parts)) == sbom.spdx("x", "1", parts)
