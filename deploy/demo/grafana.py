"""The dashboards in a real Grafana, where Docker is: one command, and the configuration it reads."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

IMAGE = "grafana/grafana:12.3.0"
URL = "http://127.0.0.1:3000/dashboards"
_ANONYMOUS = ("GF_AUTH_ANONYMOUS_ENABLED=true", "GF_AUTH_ANONYMOUS_ORG_ROLE=Admin")


def command(prometheus: str, dashboards: Path, folder: Path) -> str:
    """Writes data source and dashboards' provider into `folder`; read by Grafana's own user, who is nobody here."""
    source = {"name": "Prometheus", "uid": "prometheus", "type": "prometheus", "url": prometheus, "isDefault": True}
    provider = {"name": "gpu-exporter", "folder": "GPU", "type": "file", "options": {"path": "/dashboards"}}
    files: Mapping[str, Mapping[str, object]] = {
        "datasources": {"datasources": [{**source, "jsonData": {"timeInterval": "5s"}}]},
        "dashboards": {"providers": [provider]},
    }
    for kind, content in files.items():
        file = folder / kind / "demo.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"apiVersion": 1, **content}))
        file.chmod(0o644)
        file.parent.chmod(0o755)
    folder.chmod(0o755)
    mounts = {folder: "/etc/grafana/provisioning", dashboards: "/dashboards"}
    settings = " ".join(f"-e {setting}" for setting in _ANONYMOUS)
    volumes = " ".join(f"-v {shlex.quote(f'{at}:{inside}:ro')}" for at, inside in mounts.items())
    return f"docker run --rm --network host {settings} {volumes} {IMAGE}"
