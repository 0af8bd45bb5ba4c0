"""The image's pinned contents agree with the project, and the bill of materials with itself."""

import json
import re
from pathlib import Path

import pytest

from deploy.container import build, debian, sbom

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


def test_build_backend_is_pinned_to_what_the_project_asks_for() -> None:
    pinned = dict(
        re.findall(r"^([a-z0-9-]+)==(\S+)$", (build.HERE / "build-constraints.txt").read_text(), re.MULTILINE)
    )

    assert 'requires = ["hatchling>=1.27"]' in (ROOT / "pyproject.toml").read_text()
    assert pinned["hatchling"].startswith("1.27.")
    assert {"packaging", "pathspec", "pluggy", "trove-classifiers"} <= pinned.keys()  # all that hatchling needs


def test_labels_name_source_and_revision() -> None:
    made = build.labels("0.1.0", "c0ffee")

    assert made["org.opencontainers.image.source"].startswith("https://")
    assert made["org.opencontainers.image.revision"] == "c0ffee"
    assert made["org.opencontainers.image.version"] == "0.1.0"
    assert "org.opencontainers.image.revision" not in build.labels("0.1.0", "")


def test_revision_is_the_commit_of_this_checkout() -> None:
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?)?", build.revision())


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_file_for_another_machine_is_refused(architecture: str, tmp_path: Path) -> None:
    other = next(machine for name, machine in debian.MACHINES.items() if name != architecture)
    for machine in (debian.MACHINES[architecture], other):
        (tmp_path / f"{machine}.so").write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))

    with pytest.raises(RuntimeError, match=f"{other}.so is not for {architecture}"):
        debian.check_machine(architecture, tmp_path)
    (tmp_path / f"{other}.so").unlink()
    debian.check_machine(architecture, tmp_path)


def test_every_platform_has_wheels_and_a_machine() -> None:
    assert build.WHEELS.keys() == debian.MACHINES.keys()


def test_bill_of_materials_names_every_part_once() -> None:
    parts = [sbom.Part("pypi", "requests", "2.0"), sbom.Part("deb", "libc6", "2.36")]
    bill = json.loads(sbom.spdx("x", "1", parts))

    urls = [package["externalRefs"][0]["referenceLocator"] for package in bill["packages"]]
    assert urls == ["pkg:deb/debian/libc6@2.36", "pkg:pypi/requests@2.0"]
    assert len({package["SPDXID"] for package in bill["packages"]}) == 2
    assert sbom.spdx("x", "1", reversed(parts)) == sbom.spdx("x", "1", parts)
