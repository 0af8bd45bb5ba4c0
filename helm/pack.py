"""Write the chart as it is installed and released: `python -m helm.pack FOLDER`, by default build/gpu-exporter.

The repository holds rules and dashboards once, where they are made. A copy of each goes into a subchart, because Helm
stores the files of a chart in the Secret of every release, and those of a subchart not.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from deploy.prometheus.render import chart_values, render_recordings, render_templates, to_yaml

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path("helm/gpu-exporter")
PACKED = Path("build/gpu-exporter")
SUBCHART = Path("charts/rules-and-dashboards")
DASHBOARDS = Path("dashboards/json")
TEMPLATE_COMMENT = "# `<Alert.key>` stands for a value of alert-values.yaml, which the chart fills in.\n"


def files(root: Path = ROOT) -> dict[Path, str]:
    """Return what packing adds to the chart's folder, by the path below it."""
    rules = {
        "gpu-recording.yaml": to_yaml(render_recordings()),
        "gpu-alerts.yaml": TEMPLATE_COMMENT + to_yaml(render_templates()),
        "alert-values.yaml": to_yaml(chart_values()),
    }
    return {
        **{SUBCHART / "rules" / name: text for name, text in rules.items()},
        **{SUBCHART / "dashboards" / path.name: _on_one_line(path) for path in (root / DASHBOARDS).glob("*.json")},
    }


def _on_one_line(path: Path) -> str:
    return json.dumps(json.loads(path.read_text()), separators=(",", ":"), ensure_ascii=False)


def pack(folder: Path, root: Path = ROOT) -> Path:
    """Write the chart to `folder`, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(root / SOURCE, folder)
    for path, text in files(root).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return folder


if __name__ == "__main__":
    pack(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / PACKED)
