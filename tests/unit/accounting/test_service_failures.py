"""Nothing that a node, an option or a disk gets wrong stops the service, or is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.owner import Owner
from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.tools.report.accounting import collector, command
from exporter.tools.report.accounting.collector import NodeAccess, collect
from exporter.tools.report.accounting.database import Database
from tests.unit.accounting.rows import ROW, T0
from tests.unit.report.test_failures import api
from tests.unit.report.test_fetch import BODY


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"node": "a", "store": "s", "more": False, "rows": [{**ROW, "states": []}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**ROW, "states": {"computing": float("nan")}}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**ROW, "hour": 10**30}]},
        {"node": "a", "store": "s", "more": False, "rows": [{**ROW, "model": None}]},
        {"node": "a", "store": "s", "more": False, "rows": [ROW, {**ROW, "profile": []}]},
    ],
)
def test_answer_of_something_else_stops_no_other_node(answer: Any, database: Database) -> None:
    """Nothing of it is kept, and the node is named."""
    good = {"node": "gpu01", "store": "s", "more": False, "rows": [ROW]}

    def ask(target: str, after: int) -> Mapping[str, Any]:
        del after
        return answer if target == "gpu09" else good

    errors = collect(database, ("gpu09", "gpu01"), ask, lambda: T0)

    assert list(errors) == ["gpu09"]
    assert errors["gpu09"].startswith("not the answer of an exporter: ")
    assert {each.name for each in database.totals("node", T0, T0 + 3600)} == {"gpu01"}


def test_full_disk_of_the_service_is_named_and_stops_no_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rows need 4 MB, and the file may not grow."""

    class Full(Database):
        def __init__(self, path: Path, cluster: str) -> None:
            super().__init__(path, cluster)
            self._database.execute("PRAGMA max_page_count = 1")  # raised to what it has

    rows = [
        {**ROW, "allocation": f"{number}", "facts": {"owner": Owner("", ""), "x": "x" * 4096}} for number in range(1000)
    ]

    def ask(*_: object) -> Mapping[str, Any]:
        return {"node": "a", "store": "s", "more": False, "rows": rows}

    monkeypatch.setattr(command, "Database", Full)
    monkeypatch.setattr(NodeAccess, "ask", ask)
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    assert command.run(load(command.AccountingConfig, options, {})) == 1
    assert "http://127.0.0.1:1 is not read: database or disk is full" in capsys.readouterr().err


def test_database_that_fails_in_a_round_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: Database) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Database, "sum_hours", fails)
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    assert command.run(load(command.AccountingConfig, options, {})) == 1
    assert f"{tmp_path}/accounting.sqlite is not read: disk I/O error" in capsys.readouterr().err


def test_retention_of_the_service_is_longer_than_that_of_the_nodes(tmp_path: Path) -> None:
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path), "--retention", "7d")

    with pytest.raises(ConfigError, match="--retention: expected more than 7d"):
        command.run(load(command.AccountingConfig, options, {}))


@pytest.mark.parametrize("node", ["gpu01:9836", "http://gpu01:99999", "http://[::1", "http://", "west=gpu01", "west="])
def test_node_that_is_no_url_is_refused_at_the_start(node: str, tmp_path: Path) -> None:
    options = ("--nodes", f"http://gpu02:9836,{node}", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError) as refused:
        command.run(load(command.AccountingConfig, options, {}))

    assert str(refused.value) == f"--nodes: expected [CLUSTER=]http://HOST or https://HOST, got {node!r}"


def test_password_without_its_user_is_refused_at_the_start(tmp_path: Path) -> None:
    """It would be sent to nobody."""
    (tmp_path / "password").write_text("secret")
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError, match=r"^--password-file: expected with --username$"):
        command.run(load(command.AccountingConfig, (*options, "--password-file", str(tmp_path / "password")), {}))


def test_password_in_a_url_is_not_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--nodes", "west=http://ada:secret@127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))
    command.run(load(command.AccountingConfig, options, {}))

    logged = capsys.readouterr().err
    assert "west=http://127.0.0.1:1 is not read" in logged
    assert "secret" not in logged


def test_node_whose_answer_never_ends_is_left_out_of_the_round(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "_TIMEOUT_SECONDS", 0.3)

    with api(BODY) as url:
        assert collect(database, [url], NodeAccess().ask, lambda: T0) == {url: f"{url} does not answer within 0.3 s"}


def test_price_file_with_an_error_is_refused_at_the_start(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices: none\n")
    options = ("--nodes", "http://127.0.0.1:1", "--interval", "0", "--state.dir", str(tmp_path))

    with pytest.raises(ConfigError, match=str(prices)):
        command.run(load(command.AccountingConfig, (*options, "--prices.file", str(prices)), {}))
