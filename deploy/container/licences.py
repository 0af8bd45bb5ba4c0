"""The licences of everything that image and packages hold beside the exporter, as the parts themselves state them.

    python -m deploy.container.licences dist/gpu-exporter.tar docs/dev/licences.md

Reads Debian's copyright files from the image's archive, and metadata of the Python distributions from this environment.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import tarfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
DEBIAN_PACKAGES = Path(__file__).with_name("debian-packages.txt")
_FIELDS = ("Name", "License-Expression", "License")
_LICENCE_NAMES: Mapping[str, str] = {"The MIT License (MIT)": "MIT"}
"""First lines of a licence that stands in the metadata in full."""
_DEP5 = re.compile(r"^License:[ \t]*(\S[^\n]*)", re.MULTILINE)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")
_HEAD = """\
# Licences

Contents of the image, the packages and the single file beside the exporter (Apache-2.0). `make licences` writes this
page from what the parts state. A test compares it.

## Python distributions

In the image, the packages and the single file. The licence texts are in the `dist-info` folders.

| distribution | licence |
|---|---|
"""
_DEBIAN = """
## Debian's packages

In the image only. Each package's own file is `/usr/share/doc/PACKAGE/copyright` there. The names cover the whole source
package, with build files and tests.

| package | licences named |
|---|---|
"""


def distributions() -> Mapping[str, str]:
    """Return what the image installs with pip, everything the exporter depends on, with the version."""
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE))


def debian_packages() -> tuple[str, ...]:
    """Return the names of Debian's packages in the image."""
    return tuple(line for line in DEBIAN_PACKAGES.read_text().splitlines() if not line.startswith("#"))


@contextmanager
def first_layer(archive: Path) -> Generator[tarfile.TarFile]:
    """Open the layer of the first platform in an OCI archive."""
    with tarfile.open(archive) as image:
        document: dict[str, Any] = json.loads(_content(image, "index.json").read())
        while "manifests" in document:
            document = json.loads(_content(image, _blob(document["manifests"][0])).read())
        with tarfile.open(fileobj=_content(image, _blob(document["layers"][0]))) as layer:
            yield layer


def _blob(descriptor: Mapping[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"


def _content(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    file = archive.extractfile(name)
    if not file:
        raise ValueError(f"{name} is no file")
    return file


def of_distribution(metadata: Mapping[str, str]) -> str:
    """Raises ValueError where it says none in one line."""
    said = metadata.get("License-Expression") or metadata.get("License") or ""
    first = said.strip().partition("\n")[0].strip()
    found = _LICENCE_NAMES.get(first, first if first == said.strip() else "")
    if not found:
        raise ValueError(f"{metadata['Name']}: no licence in one line: {first!r}")
    return found


def of_debian(copyright_file: str) -> tuple[str, ...]:
    """The names in a copyright file of Debian, in its machine-readable form or by the texts it points to."""
    if copyright_file.startswith("Format:"):
        return tuple(sorted({name.strip() for name in _DEP5.findall(copyright_file)}))
    return ("in its own words", *sorted(set(_COMMON.findall(copyright_file))))


def python_rows() -> Iterable[tuple[str, str]]:
    for name in distributions():
        metadata = importlib.metadata.metadata(name)
        yield name, of_distribution({field: metadata[field] for field in _FIELDS if field in metadata})


def debian_rows(layer: tarfile.TarFile) -> Iterable[tuple[str, str]]:
    for name in sorted(debian_packages()):
        folder = layer.getmember(f"usr/share/doc/{name}").linkname or name  # packages of one source share it
        text = _content(layer, f"usr/share/doc/{folder}/copyright").read().decode(errors="replace")
        yield name, ", ".join(of_debian(text))


def table(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"| {name} | {licence} |\n" for name, licence in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("page", type=Path)
    given = parser.parse_args()
    with first_layer(given.archive) as layer:
        given.page.write_text(_HEAD + table(python_rows()) + _DEBIAN + table(debian_rows(layer)))


if __name__ == "__main__":
    main()
