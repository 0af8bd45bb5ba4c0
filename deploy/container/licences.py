"""The licences of everything that image and packages hold beside the exporter, as the parts themselves tell them.

    python -m deploy.container.licences docs/licences.md

Needs Debian 12: the packages of the image are fetched for their copyright files.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from deploy.container import debian

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
_FIELDS = ("Name", "License-Expression", "License")
_MARKS: Mapping[str, str] = {"The MIT License (MIT)": "MIT"}
"""First lines of a licence that stands in the metadata in full."""
_DEP5 = re.compile(r"^License:[ \t]*(\S[^\n]*)", re.MULTILINE)
_COMMON = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])")
_HEAD = """\
# Licences

What image, packages and single file hold beside the exporter (Apache-2.0). Written by `make licences` from what
the parts say of themselves; a test compares.

## Python distributions

In the image, the packages and the single file; the licence texts lie in the `dist-info` folders.

| distribution | licence |
|---|---|
"""
_DEBIAN = """
## Debian's packages

In the image only; each package's own file is `/usr/share/doc/PACKAGE/copyright` there. The names are those that it
has for the whole source package, build files and tests included.

| package | licences named |
|---|---|
"""


def distributions() -> Mapping[str, str]:
    """What the image installs with pip, everything the exporter depends on, with the version."""
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE))


def of_distribution(metadata: Mapping[str, str]) -> str:
    """Raises ValueError where it says none in one line."""
    said = metadata.get("License-Expression") or metadata.get("License") or ""
    first = said.strip().partition("\n")[0].strip()
    found = _MARKS.get(first, first if first == said.strip() else "")
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


def debian_rows(root: Path) -> Iterable[tuple[str, str]]:
    for name in sorted(debian.PACKAGES):
        text = (root / f"usr/share/doc/{name}/copyright").read_text(errors="replace")
        yield name, ", ".join(of_debian(text))


def table(rows: Iterable[tuple[str, str]]) -> str:
    return "".join(f"| {name} | {licence} |\n" for name, licence in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("page", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        list(debian.unpack(debian.native(), Path(scratch), root))
        given.page.write_text(_HEAD + table(python_rows()) + _DEBIAN + table(debian_rows(root)))


if __name__ == "__main__":
    main()
