"""A directory as an OCI image in a tar archive: the same tree gives the same bytes, and no engine is needed."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MEDIA = "application/vnd.oci.image."
_INDEX = f"{_MEDIA}index.v1+json"


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
    """Write an archive of one image and return the digest of its manifest."""
    return write_all([(root, image)], archive)


def write_all(variants: Sequence[tuple[Path, Image]], archive: Path) -> str:
    """Write an archive of one image for several platforms; the digest of its index, or of the only manifest."""
    blobs: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    for root, image in variants:
        manifest = _manifest(root, image, blobs)
        platform = {"architecture": image.architecture, "os": "linux"}
        entries.append({**_descriptor(f"{_MEDIA}manifest.v1+json", manifest), "platform": platform})
    (first, *others), (_, image) = entries, variants[0]
    top = first
    if others:
        index = _json({"schemaVersion": 2, "mediaType": _INDEX, "manifests": entries})
        blobs[_digest(index)] = index
        top = _descriptor(_INDEX, index)
    names = ("org.opencontainers.image.ref.name", "io.containerd.image.name")
    named = {**top, "annotations": dict.fromkeys(names, image.reference)}
    with tarfile.open(archive, "w") as tar:
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [named]}))
        for digest, blob in blobs.items():
            _add(tar, f"blobs/{digest.replace(':', '/')}", blob)
    return str(top["digest"])


def _manifest(root: Path, image: Image, blobs: dict[str, bytes]) -> bytes:
    """The manifest of one platform; it and what it names are put into `blobs`."""
    layer = _layer(root)
    packed = gzip.compress(layer, 6, mtime=0)
    config = _json(_config(image, _digest(layer)))
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}manifest.v1+json",
            "config": _descriptor(f"{_MEDIA}config.v1+json", config),
            "layers": [_descriptor(f"{_MEDIA}layer.v1.tar+gzip", packed)],
        }
    )
    blobs.update({_digest(blob): blob for blob in (config, manifest, packed)})
    return manifest


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
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()
