"""What a month cost a team: exact models, a price that changes in the month, and the days that have data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from exporter.attribution.owner import Owner
from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.tools.report.accounting.command import DATABASE, AccountingConfig, run
from exporter.tools.report.accounting.database import Cursor, Database

PRICES = """
currency: EUR
electricity_per_kwh: 0.25
grams_co2_per_kwh: 400
prices:
  - {model: NVIDIA H100 80GB HBM3, per_gpu_hour: 3, to: 2026-10-16}
  - {model: NVIDIA H100 80GB HBM3, per_gpu_hour: 2, from: 2026-10-16}
  - {model: NVIDIA A100-SXM4-80GB, pool: spot, per_gpu_hour: 0.5}
  - {model: NVIDIA A100-SXM4-80GB, per_gpu_hour: 1.5}
"""
H100, A100, A1000 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA RTX A1000"


def moment(day: int, hour: int) -> int:
    """Hours since 1970."""
    return int(datetime(2026, 10, day, hour, tzinfo=timezone.utc).timestamp() // 3600)


def row(job: str, account: str, hour: int, model: str, hours: float, **rest: Any) -> dict[str, Any]:
    owner = Owner(f"slurm:{job}", "slurm", slurm_job=job, user="ada", account=account, partition=rest.get("pool", ""))
    return {
        "seq": 1,
        "allocation": job,
        "start": hour * 3600.0,
        "end": (hour + 1) * 3600.0,
        "facts": {"owner": owner},
        "hour": hour,
        "model": model,
        "profile": "",
        "until": (hour + 1) * 3600.0,
        "used": 1800.0,
        "joules": 3.6e6,
        "states": {"computing": hours * 1800, "allocated_idle": hours * 1800},
    }


ROWS = (
    row("1", "vision", moment(2, 3), H100, 2.0),
    row("2", "vision", moment(20, 3), H100, 2.0),
    row("3", "vision", moment(20, 4), A1000, 1.0),
    row("4", "speech", moment(20, 4), A100, 4.0),
    row("5", "speech", moment(20, 4), A100, 4.0, pool="spot"),
)


@pytest.fixture
def listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    database = Database(tmp_path / DATABASE)
    database.add("gpu01", "gpu01", Cursor("s", 1), ROWS, 0.0)
    database.close()
    (tmp_path / "prices.yaml").write_text(PRICES)

    def show(*options: str) -> tuple[str, str]:
        given = ("--state.dir", str(tmp_path), "--month", "2026-10", "--prices.file", str(tmp_path / "prices.yaml"))
        assert run(load(AccountingConfig, (*given, *options), {})) == 0
        return capsys.readouterr()

    return show


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time  # noqa: PLC0415

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def by_name(text: str) -> dict[str, dict[str, float]]:
    rows: Sequence[dict[str, Any]] = json.loads(text)["rows"]
    return {each["name"]: each for each in rows}


def test_each_hour_has_its_own_price(listed: Any) -> None:
    teams = by_name(listed("--format", "json").out)

    assert teams["vision"]["cost"] == 2 * 3 + 2 * 2
    assert teams["speech"]["cost"] == 4 * 1.5 + 4 * 0.5


def test_model_that_has_no_price_is_not_free(listed: Any) -> None:
    """An RTX A1000 is no A100."""
    vision = by_name(listed("--format", "json").out)["vision"]

    assert (vision["gpu_hours"], vision["unpriced_hours"]) == (5.0, 1.0)


def test_energy_has_its_price_and_its_carbon(listed: Any) -> None:
    vision = by_name(listed("--format", "json").out)["vision"]

    assert (vision["kwh"], vision["electricity_cost"], vision["kg_co2"]) == (3.0, 0.75, 1.2)


def test_jobs_of_a_team_are_behind_its_number(listed: Any) -> None:
    jobs = by_name(listed("--format", "json", "--team", "vision", "--by", "job").out)

    assert {name: each["cost"] for name, each in jobs.items()} == {"1": 6.0, "2": 4.0, "3": 0.0}


def test_total_says_what_it_covers(listed: Any) -> None:
    text = listed("--format", "csv")

    assert text.err == "gpu-exporter: 2026-10: data for 0.1 of 31 days\n"
    assert text.out.splitlines()[1].startswith("speech,8.0,1.0,4.0,0.0,2.0,2,8.0,0.0,")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prices: [{modell: H100, per_gpu_hour: 3}]", "unknown key modell"),
        ("prices: [{model: H100, per_gpu_hour: -3}]", "expected a price of 0 or more, got -3"),
        ("prices: [{model: H100}]", "'per_gpu_hour'"),
        ("prices: [{model: H100, per_gpu_hour: 3, from: soon}]", "soon"),
        ("currency: EUR", "'prices'"),
    ],
)
def test_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    options = ("--state.dir", str(tmp_path), "--month", "2026-10", "--prices.file", str(tmp_path / "prices.yaml"))

    with pytest.raises(ConfigError, match=complaint):
        run(load(AccountingConfig, options, {}))
