"""A software bill of materials in SPDX 2.3, of Debian packages and Python distributions; no time in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import NamedTuple


class Part(NamedTuple):
    kind: str
    """`deb` or `pypi`, as in a package URL."""
    name: str
    version: str

    @property
    def url(self) -> str:
        return (
            f"pkg:deb/debian/{self.name}@{self.version}"
            if self.kind == "deb"
            else f"pkg:pypi/{self.name}@{self.version}"
        )


def spdx(name: str, version: str, parts: Iterable[Part]) -> str:
    rows = sorted(parts)
    mark = hashlib.sha256("\n".join(part.url for part in rows).encode()).hexdigest()
    packages = [_package(number, part) for number, part in enumerate(rows)]
    document = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/{name}-{version}-{mark[:32]}",
        "creationInfo": {"created": "1970-01-01T00:00:00Z", "creators": [f"Tool: {name}"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": each["SPDXID"]}
            for each in packages
        ],
    }
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _package(number: int, part: Part) -> dict[str, object]:
    return {
        "SPDXID": f"SPDXRef-{part.kind}-{number}",
        "name": part.name,
        "versionInfo": part.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": part.url}
        ],
    }
