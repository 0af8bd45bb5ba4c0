"""Write what follows from other files: the chart's schema and README, and deploy/kubernetes.

`python -m helm.generate` (`make chart`); a test compares. The chart's rules are written by
`python -m deploy.prometheus.generate`. Its dashboards are copies: tools that fetch a chart by itself drop a link.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from exporter.config.option import options_of
from exporter.daemon.config import DaemonConfig
from helm import alerting, manifests, reference, schema

ROOT = Path(__file__).resolve().parents[1]
CHART = Path("helm/gpu-exporter")
DASHBOARDS = Path("dashboards/json")


def files(root: Path = ROOT) -> dict[Path, str]:
    """Every generated file of the chart with its text, by its path in the repository."""
    chart = root / CHART
    values = (chart / "values.yaml").read_text()
    alerts = yaml.safe_load((chart / "files/rules/alert-values.yaml").read_text())
    shape = schema.schema(yaml.safe_load(values), options_of(DaemonConfig), alerts)
    dashboards = {
        CHART / "files/dashboards" / path.name: path.read_text() for path in (root / DASHBOARDS).glob("*.json")
    }
    return {
        **dashboards,
        **alerting.files(root),
        CHART / "values.schema.json": json.dumps(shape, indent=2) + "\n",
        CHART / "README.md": reference.readme((chart / "README.md.tmpl").read_text(), values, alerts),
    }


def rendered(root: Path = ROOT) -> dict[Path, str]:
    """deploy/kubernetes, from the chart as it stands."""
    return {Path("deploy/kubernetes") / name: text for name, text in manifests.files(root / CHART).items()}


def main() -> int:
    for made in (files, rendered):
        for path, text in made().items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
