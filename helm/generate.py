"""Write what follows from other files: the chart's schema and README, the packed chart, and plain manifests.

`python -m helm.generate` (`make chart`); a test compares. What is below build/ is not committed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from helm import alerting, manifests, pack, reference, schema

ROOT = pack.ROOT


def files(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of the chart with its text, by its path in the repository."""
    chart = root / pack.SOURCE
    values = (chart / "values.yaml").read_text()
    foreign = yaml.safe_load((chart / "files/names-of-other-charts.yaml").read_text())
    shape = schema.schema(yaml.safe_load(values), options_of(DaemonConfig), foreign)
    return {
        **alerting.files(root),
        pack.SOURCE / "values.schema.json": json.dumps(shape, indent=2) + "\n",
        pack.SOURCE / "README.md": reference.readme((chart / "README.md.tmpl").read_text(), values),
    }


def rendered(packed: Path) -> dict[Path, str]:
    """deploy/kubernetes, from the packed chart."""
    return {Path("deploy/kubernetes") / name: text for name, text in manifests.files(packed).items()}


def main() -> int:
    _write(files())
    packed = pack.pack(ROOT / pack.PACKED)
    _write({**rendered(packed), manifests.MONITORING: manifests.monitoring(packed)})
    return 0


def _write(texts: Mapping[Path, str]) -> None:
    for path, text in texts.items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
