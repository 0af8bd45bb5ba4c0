"""A directory as an OCI image in a tar archive: the same tree gives the same bytes, and no engine is needed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MEDIA = "application/vnd.oci.image."


@dataclass(frozen=True, slots=True)
class Image:
    """What the image says about itself. `reference` is the name it is imported under."""

    reference: str
    entrypoint: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = "0:0"
    architecture: str = "amd64"
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    ports: tuple[int, ...] = ()


def write(root: Path, image: Image, archive: Path) -> str:
    """Write the archive and return the digest of the image's manifest."""
    layer = _layer(root)
    packed = gzip.compress(layer, 6, mtime=0)
    config = _json(_config(image, _digest(layer)))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar+gzip", packed)],
        }
    )
    index = _json({"schemaVersion": 2, "manifests": [_named(image, manifest)]})
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", index)
        for blob in (config, manifest, packed):
            _add(tar, f"blobs/sha256/{_digest(blob).removeprefix('sha256:')}", blob)
    return _digest(manifest)


def _config(image: Image, layer: str) -> dict[str, Any]:
    return {
        "architecture": image.architecture,
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Env": [f"{name}={value}" for name, value in image.environment.items()],
            "User": image.user,
            "WorkingDir": "/",
            "Labels": dict(image.labels),
            "ExposedPorts": {f"{port}/tcp": {} for port in image.ports},
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created_by": "deploy/container/build.py"}],
    }


def _named(image: Image, manifest: bytes) -> dict[str, Any]:
    names = ("org.opencontainers.image.ref.name", "io.containerd.image.name")
    return {
        **_descriptor("manifest.v1+json", manifest),
        "platform": {"architecture": image.architecture, "os": "linux"},
        "annotations": dict.fromkeys(names, image.reference),
    }


def _layer(root: Path) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _tree(root):
            tar.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=_owned_by_root)
    return buffer.getvalue()


def _tree(root: Path) -> Iterator[Path]:
    """Everything below the root in one fixed order, parents first; devices and sockets are left out."""
    for folder, names, files in os.walk(root):
        names.sort()
        for name in sorted((*names, *files)):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode) or stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield path


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": f"{_MEDIA}{kind}", "digest": _digest(blob), "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
