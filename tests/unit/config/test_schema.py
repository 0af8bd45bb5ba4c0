"""The schema of the configuration file takes what the program takes, and refuses what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.daemon.config import DaemonConfig
from exporter.tools.reference.schema import schema, written

PAGE = Path(__file__).resolve().parents[3] / "docs/config.schema.json"


def test_the_stored_schema_is_the_made_one() -> None:
    assert PAGE.read_text() == written(schema()), "run make reference"


def valid(content: Any) -> bool:
    try:
        jsonschema.validate(content, schema())
    except jsonschema.ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", True),
        ("web: {listen-address: ':9836'}", True),
        ("web.listen-address: ':9836'", True),
        ("sample: {interval: 500ms}", True),
        ("attribution: {kubernetes: {value: on, api: true, pod-labels: [team, app]}}", True),
        ("attribution: {kubernetes: 'off'}", True),
        ("attribution: {kubernetes: /run/kubelet.sock}", True),
        ("attribution: {kubernetes: kubelet.sock}", False),
        ("attribution: {containers: {folders: {docker: /srv/docker}}}", True),
        ("attribution: {containers: {folders: {dokker: /srv/docker}}}", False),
        ("collectors: {disable: [nvlink, xid]}", True),
        ("collectors: {disable: 'nvlink,xid'}", True),
        ("collectors: {disable: [nvlnk]}", False),
        ("ledger: {thresholds: {wait-cover: 0.4}}", True),
        ("ledger.thresholds: {wait-cover: 0.4}", True),
        ("ledger: {thresholds: 'wait-cover=0.4'}", True),
        ("ledger: {wait-cover: 0.4}", False),
        ("ledger: {thresholds: {wait-covr: 0.4}}", False),
        ("sample:", True),
        ("attribution: {kubernetes: }", True),
        ("web: {listen-adress: ':1'}", False),
        ("web: {telemetry-path: /-/ready}", False),
        ("web: {telemetry-path: /runbooks/}", False),
        ("ledger: {thresholds: {wait-cover: 1.5}}", False),
        ("ledger: {thresholds: {polling-seconds: -1}}", False),
        ("ledger: {thresholds: {polling-seconds: 1.5}}", True),
        ("sample: {interval: soon}", False),
        ("log: {level: loud}", False),
        ("nothing: 1", False),
    ],
)
def test_schema_and_program_agree(tmp_path: Path, text: str, taken: bool) -> None:  # noqa: FBT001 - of the table
    assert valid(yaml.safe_load(text) or {}) is taken
    file = tmp_path / "c.yaml"
    file.write_text(text)
    if taken:
        load(DaemonConfig, ("--config.file", str(file)), {})
    else:
        with pytest.raises(ConfigError):
            load(DaemonConfig, ("--config.file", str(file)), {})


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(PAGE.read_text()))
