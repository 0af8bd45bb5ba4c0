import hashlib
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.container import oci

IMAGE = oci.Image(
    reference="localhost/x:1", entrypoint=("x",), environment={"A": "b"}, user="65534:65534", ports=(9836,)
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/x").write_text("#!/bin/x\n")
    (root / "usr/bin/x").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    return root


@pytest.fixture
def written(tree: Path, tmp_path: Path) -> tuple[str, dict[str, bytes]]:
    archive = tmp_path / "image.tar"
    digest = oci.write(tree, IMAGE, archive)
    with tarfile.open(archive) as tar:
        content: dict[str, bytes] = {}
        for entry in tar.getmembers():
            file = tar.extractfile(entry)
            assert file
            content[entry.name] = file.read()
    return digest, content


def blob(content: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    found = content[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert len(found) == descriptor["size"]
    assert f"sha256:{hashlib.sha256(found).hexdigest()}" == descriptor["digest"]
    return found


def test_archive_leads_from_index_to_layer(written: tuple[str, dict[str, bytes]], tmp_path: Path) -> None:
    digest, content = written
    (named,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(blob(content, named))
    config = json.loads(blob(content, manifest["config"]))
    (tmp_path / "layer").write_bytes(blob(content, manifest["layers"][0]))
    with tarfile.open(tmp_path / "layer") as layer:
        entries = {entry.name: entry for entry in layer.getmembers()}

    assert named["digest"] == digest
    assert named["annotations"]["io.containerd.image.name"] == "localhost/x:1"
    assert config["config"]["Entrypoint"] == ["x"]
    assert config["config"]["User"] == "65534:65534"
    assert sorted(entries) == ["bin", "usr", "usr/bin", "usr/bin/x"]
    assert entries["bin"].linkname == "usr/bin"
    assert (entries["usr/bin/x"].mode, entries["usr/bin/x"].uid, entries["usr/bin/x"].mtime) == (0o755, 0, 0)


def test_same_tree_gives_the_same_bytes_at_another_time(tree: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "1.tar", tmp_path / "2.tar"
    oci.write(tree, IMAGE, first)
    (tree / "usr/bin/x").touch()
    oci.write(tree, IMAGE, second)

    assert first.read_bytes() == second.read_bytes()


def test_changed_file_changes_the_digest(tree: Path, tmp_path: Path) -> None:
    before = oci.write(tree, IMAGE, tmp_path / "1.tar")
    (tree / "usr/bin/x").write_text("#!/bin/y\n")

    assert oci.write(tree, IMAGE, tmp_path / "2.tar") != before


def test_several_platforms_are_one_name_and_each_is_the_same_as_alone(tree: Path, tmp_path: Path) -> None:
    other = replace(IMAGE, architecture="arm64")
    alone = [oci.write(tree, image, tmp_path / "alone.tar") for image in (IMAGE, other)]
    digest = oci.write_all([(tree, IMAGE), (tree, other)], tmp_path / "both.tar")

    with tarfile.open(tmp_path / "both.tar") as tar:
        content = {entry.name: getattr(tar.extractfile(entry), "read", bytes)() for entry in tar.getmembers()}
    (named,) = json.loads(content["index.json"])["manifests"]
    index = json.loads(blob(content, named))

    assert named["digest"] == digest
    assert named["annotations"]["io.containerd.image.name"] == "localhost/x:1"
    assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
    assert [each["digest"] for each in index["manifests"]] == alone
