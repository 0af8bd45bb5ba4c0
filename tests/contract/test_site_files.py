"""Files that an option names: a pipe or a device in their place is refused at once, and never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from exporter.attribution.kubernetes.api_server import ApiServer
from exporter.attribution.nomad.source import Agent
from exporter.attribution.slurm import gres
from exporter.config.option import ConfigError
from exporter.core import site_file
from exporter.faults import state_file
from exporter.tools.report.command import access
from exporter.tools.report.options import PrometheusConfig
from exporter.web import settings, tls
from tests.unit.web.test_web import certificate

_NAMES = tls.Tls("cert", "key")

READERS: Mapping[str, Callable[[Path], object]] = MappingProxyType(
    {
        "configuration, prices, scenario": site_file.load_yaml,
        "capture": lambda file: site_file.read(file, 1 << 20),
        "web configuration": settings.load,
        "certificate": lambda file: tls.context(replace(_NAMES, cert=file)),
        "state": state_file.read_state,
        "gres.conf": gres.conf_text,
        "Nomad token": lambda file: Agent("http://127.0.0.1:9", token_file=file).get("/"),
        "Nomad authority": lambda file: Agent("https://127.0.0.1:9", ca_file=file).get("/"),
        "token of Prometheus": lambda file: access(_prometheus(bearer_token_file=file)),
        "authority of Prometheus": lambda file: access(_prometheus(ca_file=file)),
    }
)


def _prometheus(**files: Path) -> PrometheusConfig:
    return replace(PrometheusConfig(url="http://127.0.0.1:9"), **files)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", READERS)
def test_pipe_in_place_of_a_file_is_refused_at_once(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises((ConfigError, OSError, ValueError, state_file.StateError), match="not a regular file"):
        READERS[name](tmp_path / "pipe")


def test_pipe_in_place_of_the_token_of_the_api_server_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")

    with pytest.raises(Exception, match="not a regular file"):
        ApiServer("https://127.0.0.1:9", tmp_path).document("/api")


def test_pipe_in_place_of_the_authority_of_clients_is_refused_at_once(tmp_path: Path) -> None:
    certificate(tmp_path, "x")
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigError, match="pipe: not a regular file"):
        tls.context(tls.Tls(tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "pipe"))


def test_link_to_a_file_is_followed_as_secrets_of_kubernetes_are(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data/web.yaml").write_text("a: 1")
    (tmp_path / "web.yaml").symlink_to("..data/web.yaml")

    assert site_file.load_yaml(tmp_path / "web.yaml") == {"a": 1}


def test_device_without_end_is_refused_unread() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        site_file.read_bytes("/dev/zero", 1)
