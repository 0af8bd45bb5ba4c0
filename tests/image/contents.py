"""The image, built by buildah for one platform and for two: `make test-image`."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.container import licences
from exporter import __version__

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = "localhost/gpu-exporter:test"
ELF_MACHINES = {"amd64": 62, "arm64": 183}


@dataclass(frozen=True)
class Image:
    """One platform of an archive: its digest, its configuration and its files."""

    digest: str
    configuration: Mapping[str, Any]
    root: Path


def read(archive: Path, folder: Path) -> dict[str, Image]:
    """Unpack an OCI archive; images by architecture."""
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")

    def document(descriptor: Mapping[str, Any]) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((folder / "blobs" / descriptor["digest"].replace(":", "/")).read_text())
        return content

    (named,) = json.loads((folder / "index.json").read_text())["manifests"]
    assert named["annotations"]["org.opencontainers.image.ref.name"] == REFERENCE
    found: dict[str, Image] = {}
    for each in document(named).get("manifests", [named]):
        manifest = document(each)
        configuration = document(manifest["config"])
        root = folder / configuration["architecture"]
        root.mkdir()
        (layer,) = manifest["layers"]
        blob = folder / "blobs" / layer["digest"].replace(":", "/")
        subprocess.run(["tar", "-xzf", blob, "--numeric-owner", "-C", root], check=True)
        found[configuration["architecture"]] = Image(each["digest"], configuration, root)
    return found


def build(folder: Path, *architectures: str) -> dict[str, Image]:
    archive = folder / "image.tar"
    platforms = [f"linux/{each}" for each in architectures]
    subprocess.run([ROOT / "deploy/container/build.sh", archive, REFERENCE, *platforms], check=True)
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    return read(archive, unpacked)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(tmp_path_factory.mktemp("alone"), "amd64")["amd64"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image]:
    return build(tmp_path_factory.mktemp("both"), "amd64", "arm64")


def test_any_user_may_keep_state_and_temporary_files(alone: Image) -> None:
    """A named volume gets the mode of the folder that it covers."""
    modes = [(alone.root / name).stat().st_mode & 0o7777 for name in ("tmp", "var/lib/gpu-exporter")]

    assert modes == [0o1777, 0o1777]


def test_image_built_twice_alone_and_for_two_platforms_has_one_digest(alone: Image, both: dict[str, Image]) -> None:
    assert sorted(both) == ["amd64", "arm64"]
    assert both["amd64"].digest == alone.digest


def test_program_runs_in_the_image_as_nobody(alone: Image) -> None:
    (program,) = alone.configuration["config"]["Entrypoint"]
    command = [
        "/usr/sbin/chroot",
        f"--userspec={alone.configuration['config']['User']}",
        alone.root,
        f"/usr/bin/{program}",
    ]
    done = subprocess.run([*command, "--version"], env={}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"gpu-exporter {__version__}\n", "")


def test_image_configuration_names_user_port_driver_and_labels(alone: Image) -> None:
    configuration = alone.configuration["config"]
    labels = {key.rpartition(".")[2]: value for key, value in configuration["Labels"].items()}

    assert configuration["Entrypoint"] == ["gpu-exporter"]
    assert configuration["User"] == "65534:65534"
    assert configuration["ExposedPorts"] == {"9836/tcp": {}}
    assert {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=utility"} <= set(configuration["Env"])
    assert {key: labels[key] for key in ("title", "version", "licenses")} == {
        "title": "gpu-exporter",
        "version": __version__,
        "licenses": "Apache-2.0",
    }
    assert labels["source"].startswith("https://")
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["revision"])
    assert labels.keys() == {"title", "description", "version", "licenses", "source", "documentation", "revision"}


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_image_holds_two_programs_of_its_platform_and_no_shell(both: dict[str, Image], architecture: str) -> None:
    root = both[architecture].root
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    heads = [path.read_bytes()[:20] for path in files]
    machines = {int.from_bytes(head[18:], "little") for head in heads if head.startswith(b"\x7fELF")}

    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == ["gpu-exporter", "python3", "python3.11"]
    assert not (root / "bin").exists()
    assert machines == {ELF_MACHINES[architecture]}
    assert {(path.stat().st_uid, path.stat().st_gid, path.stat().st_mtime) for path in files} == {(0, 0, 0.0)}


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_bills_of_materials_name_every_package_and_distribution(both: dict[str, Image], architecture: str) -> None:
    folder = both[architecture].root / "usr/share/sbom"
    debian, python = (json.loads((folder / f"{kind}.cdx.json").read_text()) for kind in ("debian", "python"))

    packages = {each["name"] for each in debian["components"] if "arch=source" not in each["purl"]}
    assert packages == set(licences.debian_packages())
    distributions = {each["name"].lower().replace("_", "-"): each["version"] for each in python["components"]}
    assert distributions == {**licences.distributions(), "gpu-exporter": __version__}


def test_image_compiles_every_module_and_keeps_only_copyright_files(alone: Image) -> None:
    modules = list((alone.root / "opt/gpu-exporter/exporter").rglob("*.py"))
    compiled = {path.parent / f"__pycache__/{path.stem}.cpython-311.pyc" for path in modules}
    documents = [path for path in (alone.root / "usr/share/doc").rglob("*") if path.is_file()]

    assert modules
    assert [path for path in compiled if not path.exists()] == []
    assert {path.name for path in documents} == {"copyright"}
