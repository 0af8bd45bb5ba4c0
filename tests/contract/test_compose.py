"""The compose file: mounts that exist, pinned tags, ports on loopback, configurations that the programs accept."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack import program

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy/compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def _mounts() -> list[tuple[str, str]]:
    pairs = [mount.split(":")[:2] for service in SERVICES.values() for mount in service.get("volumes", [])]
    return [(source, target) for source, target in pairs if source.startswith(".")]


@pytest.mark.parametrize("source", [source for source, _ in _mounts()])
def test_mounted_files_are_in_the_repository(source: str) -> None:
    assert (FOLDER / source).exists()


def test_named_volumes_are_declared() -> None:
    named = {m.split(":")[0] for service in SERVICES.values() for m in service.get("volumes", []) if m[0] not in "./"}

    assert named == set(COMPOSE["volumes"])


def test_exporter_may_write_to_its_volume() -> None:
    """A named volume has the owner and mode of the folder that it covers in the image: root's, without one."""
    targets = [each.split(":")[1] for each in SERVICES["exporter"]["volumes"]]
    made = re.findall(r"chmod 1777 ([^\\\n]+)", (ROOT / "deploy/container/Containerfile").read_text())

    assert {target.lstrip("/") for target in targets} <= set(" ".join(made).split())


def test_images_have_a_version() -> None:
    images = [service["image"] for name, service in SERVICES.items() if name != "exporter"]

    assert [image for image in images if not re.search(r":v?[0-9]+\.[0-9]+\.[0-9]+$", image)] == []


def test_ports_are_on_loopback() -> None:
    ports = [port for service in SERVICES.values() for port in service["ports"]]

    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_no_service_is_privileged() -> None:
    assert [name for name, service in SERVICES.items() if {"privileged", "cap_add"} & set(service)] == []


def test_prometheus_accepts_the_configuration_where_it_is_mounted(tmp_path: Path) -> None:
    """The paths of the container are made below a folder."""
    for source, target in _mounts():
        if target.startswith("/etc/prometheus"):
            place = tmp_path / target[1:]
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (FOLDER / source).is_dir() else shutil.copy)(FOLDER / source, place)
    file = tmp_path / "etc/prometheus/prometheus.yaml"
    file.write_text(file.read_text().replace("/etc/prometheus/", f"{tmp_path}/etc/prometheus/"))

    done = subprocess.run([program("promtool"), "check", "config", file], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[1-9][0-9]+ rules found", done.stdout)


def test_alertmanager_accepts_its_configuration() -> None:
    file = FOLDER / "alertmanager.yaml"
    done = subprocess.run([program("amtool"), "check-config", file], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
