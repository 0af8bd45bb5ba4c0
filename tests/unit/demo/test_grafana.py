"""The command that shows the dashboards in a real Grafana."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

from deploy.demo.grafana import command

ROOT = Path(__file__).resolve().parents[3]
DASHBOARDS = ROOT / "dashboards/json"


# What Grafana reads of version 1 (pkg/services/provisioning); it passes over whatever else stands there.
SOURCE_KEYS = {
    "orgId",
    "orgName",
    "version",
    "name",
    "type",
    "access",
    "url",
    "user",
    "database",
    "basicAuth",
    "basicAuthUser",
    "withCredentials",
    "isDefault",
    "correlations",
    "jsonData",
    "secureJsonData",
    "editable",
    "uid",
}
PROVIDER_KEYS = {
    "name",
    "type",
    "orgId",
    "folder",
    "folderUid",
    "editable",
    "options",
    "disableDeletion",
    "updateIntervalSeconds",
    "allowUiUpdates",
}


def mounts(line: str) -> dict[str, Path]:
    """What is mounted, by where it is in the container."""
    words = shlex.split(line)
    given = [words[at + 1].split(":") for at, word in enumerate(words) if word == "-v"]
    assert all(mode == "ro" for _, _, mode in given)
    return {inside: Path(source) for source, inside, _ in given}


def test_grafana_finds_prometheus_and_every_dashboard(tmp_path: Path) -> None:
    inside = mounts(command("http://127.0.0.1:9090", DASHBOARDS, tmp_path / "a folder"))
    configured = inside["/etc/grafana/provisioning"]
    sources = json.loads((configured / "datasources/demo.yaml").read_text())
    providers = json.loads((configured / "dashboards/demo.yaml").read_text())
    (source,), (provider,) = sources["datasources"], providers["providers"]

    assert (sources["apiVersion"], providers["apiVersion"]) == (1, 1)
    assert source.keys() <= SOURCE_KEYS
    assert provider.keys() <= PROVIDER_KEYS
    assert (source["url"], source["type"]) == ("http://127.0.0.1:9090", "prometheus")
    assert list(inside[provider["options"]["path"]].glob("*.json"))


def test_what_is_mounted_can_be_read_by_grafanas_own_user(tmp_path: Path) -> None:
    folder = tmp_path / "grafana"
    command("http://127.0.0.1:9090", DASHBOARDS, folder)

    for path in (folder, *folder.rglob("*")):
        wanted = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        assert path.stat().st_mode & wanted == wanted, path
