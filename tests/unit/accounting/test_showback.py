"""What a month cost a team: exact models, a price that changes in the month, and the days that have data."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import promql_parser
import pytest

from exporter.attribution.owner import Owner
from exporter.config.load import load
from exporter.tools.report.accounting.command import DATABASE
from exporter.tools.report.accounting.database import Cursor, Database
from exporter.tools.report.accounting.metrics import months
from exporter.tools.report.accounting.prices import read
from exporter.tools.report.command import run
from exporter.tools.report.options import ReportConfig

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
        given = ("--accounting.database", str(tmp_path / DATABASE), "--month", "2026-10")
        prices = ("--prices.file", str(tmp_path / "prices.yaml"))
        assert run(load(ReportConfig, (*given, *prices, *options), {})) == 0
        return capsys.readouterr()

    return show


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:

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


def test_price_that_begins_in_the_month_leaves_the_hours_before_without_one(listed: Any, tmp_path: Path) -> None:
    """Both H100 jobs got two hours; the first one ran on the second day of the month."""
    (tmp_path / "prices.yaml").write_text(f"prices: [{{model: {H100}, per_gpu_hour: 2, from: 2026-10-16}}]")

    vision = by_name(listed("--format", "json", "--team", "vision").out)["vision"]
    text = listed("--team", "vision").out

    assert (vision["gpu_hours"], vision["cost"], vision["unpriced_hours"]) == (5.0, 4.0, 3.0)
    assert "4.00 USD; 3.0 h have no price" in text


def test_waste_costs_what_its_own_gpus_cost(listed: Any, tmp_path: Path) -> None:
    """Four idle A100 and two busy H100: at the mean price the waste would cost 6.67."""
    busy = {**row("6", "bio", moment(20, 4), H100, 2.0), "states": {"computing": 7200.0}}
    idle = {**row("7", "bio", moment(20, 4), A100, 4.0), "states": {"allocated_idle": 14400.0}}
    database = Database(tmp_path / DATABASE)
    database.add("gpu09", "gpu09", Cursor("b", 1), (busy, idle), 0.0)
    database.close()

    bio = by_name(listed("--format", "json").out)["bio"]

    assert (bio["cost"], bio["wasted_hours"], bio["wasted_cost"]) == (2 * 2 + 4 * 1.5, 4.0, 4 * 1.5)


def test_accounts_that_the_site_maps_to_a_team_are_one(listed: Any, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES + "teams: {perception: [vision, speech]}\nbudgets: {perception: 9}\n")

    teams = by_name(listed("--format", "json").out)
    jobs = by_name(listed("--format", "json", "--team", "perception", "--by", "job").out)

    assert {name: (each["cost"], each["budget"]) for name, each in teams.items()} == {"perception": (18.0, 9)}
    assert set(jobs) == {"1", "2", "3", "4", "5"}


def test_energy_has_its_price_and_its_carbon(listed: Any) -> None:
    vision = by_name(listed("--format", "json").out)["vision"]

    assert (vision["kwh"], vision["electricity_cost"], vision["kg_co2"]) == (3.0, 0.75, 1.2)


def test_jobs_of_a_team_are_behind_its_number(listed: Any) -> None:
    jobs = by_name(listed("--format", "json", "--team", "vision", "--by", "job").out)

    assert {name: each["cost"] for name, each in jobs.items()} == {"1": 6.0, "2": 4.0, "3": 0.0}


def test_idle_service_has_its_cost_and_advice(listed: Any, tmp_path: Path) -> None:
    """Four GPUs without a request for an hour: that is no waste for certain, but neither is it free."""
    owner = Owner("web/Deployment/chat", "pod", namespace="web", pod="chat-0", container="main")
    idle = {**row("", "", moment(21, 0), H100, 1.0), "facts": {"owner": owner}, "states": {"wait_requests": 14400.0}}
    database = Database(tmp_path / DATABASE)
    database.add("gpu03", "gpu03", Cursor("u", 1), (idle,), 0.0)
    database.close()

    web = by_name(listed("--format", "json").out)["web"]
    page = listed("--format", "html", "--team", "web").out

    assert (web["wasted_cost"], web["possibly_wasted_hours"], web["possibly_wasted_cost"]) == (0.0, 4.0, 8.0)
    assert "<strong>Waits for requests, 4.0 h</strong>" in page
    assert list(by_name(listed("--format", "json", "--team", "web", "--by", "job").out)) == ["web/Deployment/chat"]


def test_total_says_what_it_covers(listed: Any) -> None:
    text = listed("--format", "csv")

    assert (
        text.err
        == "gpu-exporter: 2026-10: data for 0.1 of 31 days; 0.0 days of the month before; days missing: gpu01 18.0\n"
    )
    assert text.out.splitlines()[2].startswith("speech,2,8.0,1.0,4.0,0.0,2.0,2,8.0,0,")


def test_team_has_its_rank_among_all_teams_and_its_month_before(listed: Any, tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE)
    september = moment(1, 0) - 30
    database.add("gpu02", "gpu02", Cursor("t", 1), (row("6", "speech", september, A100, 2.0),), 0.0)
    database.close()

    (speech,) = json.loads(listed("--format", "json", "--team", "speech").out)["rows"]

    assert (speech["name"], speech["rank"], speech["gpu_hours_before"], speech["cost_before"]) == (
        "speech",
        2,
        2.0,
        3.0,
    )


def test_gpu_time_without_an_owner_has_a_price_and_no_rank(listed: Any, tmp_path: Path) -> None:
    """The sum of all rows is the fleet's whole cost: free, unhealthy and unobserved GPUs are in it."""
    free = {**row("", "", moment(21, 0), H100, 1.0), "facts": {"owner": Owner("", "")}, "states": {"free": 7200.0}}
    database = Database(tmp_path / DATABASE)
    database.add("gpu03", "gpu03", Cursor("u", 1), (free,), 0.0)
    database.close()

    rows = by_name(listed("--format", "json").out)

    assert (rows[""]["cost"], rows[""]["rank"]) == (4.0, None)
    assert sum(each["cost"] for each in rows.values()) == 10 + 8 + 4


def test_month_as_a_page_has_rank_cost_and_coverage(listed: Any) -> None:
    page = listed("--format", "html").out

    assert "<h1>GPU hours and cost by team, 2026-10</h1>" in page
    assert "data for 0.1 of 31 days" in page
    assert '<td class="n">10.00 EUR</td>' in page


def test_month_or_team_without_gpu_time_is_no_empty_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Database(tmp_path / DATABASE).close()
    options = ("--accounting.database", str(tmp_path / DATABASE), "--month", "2026-10", "--team", "visoin")

    assert run(load(ReportConfig, options, {})) == 3
    out, error = capsys.readouterr()
    assert out == ""
    assert "no GPU time of visoin in 2026-10" in error


def test_focus_has_a_charge_for_each_team_model_and_price(listed: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(listed("--format", "focus").out)))

    charges = {(each["SubAccountId"], each["ListUnitPrice"], each["ConsumedQuantity"]): each for each in rows}
    assert sorted(charges) == [
        ("speech", "0.500000", "4.000000"),
        ("speech", "1.500000", "4.000000"),
        ("vision", "2.000000", "2.000000"),
        ("vision", "3.000000", "2.000000"),
    ]
    assert sum(float(each["BilledCost"]) for each in rows) == 18.0
    assert {(each["BillingPeriodStart"], each["BillingPeriodEnd"]) for each in rows} == {
        ("2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z")
    }
    assert {key for each in rows for key in json.loads(each["SkuPriceDetails"])} == {"x_GpuModel"}  # none of FOCUS' own


def test_focus_names_the_hours_that_it_leaves_out(listed: Any) -> None:
    """A model without a price."""
    assert "1.0 h have no price and are not in it" in listed("--format", "focus").err
    assert "no price" not in listed("--format", "focus", "--team", "speech").err


def test_focus_without_any_price_has_its_columns(listed: Any, tmp_path: Path) -> None:
    columns = listed("--format", "focus").out.splitlines()[0]
    (tmp_path / "prices.yaml").write_text("prices: [{model: B200, per_gpu_hour: 9}]")

    assert listed("--format", "focus").out.splitlines() == [columns]


def test_jobs_of_two_clusters_with_one_id_are_two(listed: Any, tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE)
    for cluster, hours in (("west", 1.0), ("east", 2.0)):
        database.add(cluster, f"{cluster}/n1", Cursor("v", 1), (row("7", cluster, moment(3, 0), A100, hours),), 0.0)
    database.close()

    jobs = by_name(listed("--format", "json", "--by", "job").out)
    of_west = by_name(listed("--format", "json", "--by", "job", "--cluster", "west").out)

    assert (jobs["west/7"]["gpu_hours"], jobs["east/7"]["gpu_hours"], jobs["1"]["gpu_hours"]) == (1.0, 2.0, 2.0)
    assert of_west["7"]["gpu_hours"] == 1.0


def test_allocation_with_two_kinds_of_gpu_is_one(listed: Any, tmp_path: Path) -> None:
    """Two MIG profiles of one model, and another model. It goes on for an hour."""
    place = row("7", "robots", moment(3, 0), A100, 1.0)
    rows = [
        {**place, "model": model, "profile": profile, "hour": place["hour"] + hour}
        for model, profile in ((A100, "1g.10gb"), (A100, "2g.20gb"), (H100, ""))
        for hour in (0, 1)
    ]
    for _ in range(2):
        database = Database(tmp_path / DATABASE)
        database.add("gpu04", "gpu04", Cursor("v", 1), rows, 0.0)
        assert by_name(listed("--format", "json").out)["robots"]["allocations"] == 1
        assert by_name(listed("--format", "json", "--by", "job").out)["7"]["allocations"] == 1
        database.sum_hours()
        database.close()


def test_opencost_has_the_fields_of_its_custom_costs(listed: Any) -> None:
    """https://github.com/opencost/opencost, protos/customcost/messages.proto."""
    response = json.loads(listed("--format", "opencost").out)
    window = {"start": "2026-10-01T00:00:00Z", "end": "2026-11-01T00:00:00Z"}
    domain = {"costSource": "gpu", "domain": "gpu-exporter", "version": "v1", "currency": "EUR"}

    assert {name: value for name, value in response.items() if name != "costs"} == {**domain, **window}
    (cheap,) = [each for each in response["costs"] if each["listUnitPrice"] == 0.5]
    assert cheap == {
        "accountName": "GPU fleet",
        "billedCost": 2.0,
        "chargeCategory": "Usage",
        "description": f"GPU hours of speech on {A100}",
        "id": f"2026-10/speech/{A100} at 0.5",
        "labels": {"team": "speech"},
        "listCost": 2.0,
        "listUnitPrice": 0.5,
        "providerId": A100,
        "resourceName": A100,
        "resourceType": "GPU",
        "usageQuantity": 4.0,
        "usageUnit": "Hours",
    }
    assert sum(each["billedCost"] for each in response["costs"]) == 18.0


def test_name_that_a_spreadsheet_would_run_is_text(listed: Any, tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE)
    database.add("gpu04", "gpu04", Cursor("v", 1), (row("7", "=1+1", moment(3, 0), A100, 1.0),), 0.0)
    database.close()

    assert "'=1+1,3,1.0" in listed("--format", "csv").out


def test_rule_file_has_the_price_of_each_exact_model_from_its_day_on(listed: Any) -> None:
    (group,) = json.loads(listed("--format", "rules").out)["groups"]
    _, rule = group["rules"]

    assert (group["name"], group["interval"]) == ("gpu-prices", "4m")
    assert (rule["record"], rule["labels"]) == ("gpu:price_per_hour", {"currency": "EUR"})
    assert promql_parser.parse(rule["expr"])
    h100 = '0 * profile:gpu_info:group{model="NVIDIA H100 80GB HBM3"}'
    assert rule["expr"] == (
        f"max by (cluster, model, profile, pool) ({h100} + 3 and on () vector(time()) < 1792108800"
        f" or {h100} + 2 and on () vector(time()) >= 1792108800"
        ' or 0 * profile:gpu_info:group{model="NVIDIA A100-SXM4-80GB", pool="spot"} + 0.5'
        ' or 0 * profile:gpu_info:group{model="NVIDIA A100-SXM4-80GB"} + 1.5)'
    )


CLUSTERS = """
prices:
  - {cluster: west, profile: 1g.10gb, per_gpu_hour: 2}
  - {cluster: west, per_gpu_hour: 1}
  - {per_gpu_hour: 3}
"""


@pytest.mark.parametrize(("cluster", "instance", "whole"), [("west", 2, 1), ("east", 3, 3), ("", 3, 3)])
def test_row_of_a_cluster_is_of_that_cluster(
    listed: Any, tmp_path: Path, cluster: str, instance: float, whole: float
) -> None:
    database = Database(tmp_path / DATABASE)
    sliced = {**row("8", "bio", moment(5, 0), A100, 2.0), "profile": "1g.10gb"}
    database.add("gpu01", "gpu01", Cursor("s", 2), (sliced,), 0.0)
    database.close()
    (tmp_path / "prices.yaml").write_text(CLUSTERS)

    teams = by_name(listed("--format", "json", "--cluster", cluster).out)

    assert (teams["bio"]["cost"], teams["vision"]["cost"]) == (2 * instance, 5 * whole)


def test_team_has_its_budget_and_a_forecast_to_the_end_of_the_month(listed: Any, tmp_path: Path) -> None:
    """Five hours of October have data, and the month is over: the forecast is the cost."""
    (tmp_path / "prices.yaml").write_text(PRICES + "budgets: {vision: 12.5}\n")

    vision, speech = (by_name(listed("--format", "json").out)[name] for name in ("vision", "speech"))

    assert (vision["budget"], speech["budget"]) == (12.5, None)
    assert (vision["forecast_cost"], speech["forecast_cost"]) == (10.0, 8.0)
    assert '<td class="n">80 %</td>' in listed("--format", "html").out


def test_service_shows_the_month_of_teams_with_a_budget(tmp_path: Path) -> None:
    database = Database(tmp_path / DATABASE)
    database.add("gpu01", "gpu01", Cursor("s", 1), ROWS, 0.0)
    (tmp_path / "prices.yaml").write_text(PRICES + "budgets: {vision: 12.5, robots: 4}\n")

    found = months(database, read(tmp_path / "prices.yaml"), moment(20, 5) * 3600.0)
    database.close()

    assert (found["vision"].cost, found["vision"].budget) == (10.0, 12.5)
    assert found["vision"].forecast == pytest.approx(10 + 10 / 3 * (11 * 24 + 19))
    assert found["robots"] == (0.0, 4.0, 0.0)


def test_rule_file_alerts_at_each_threshold_of_the_budgets(listed: Any, tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(PRICES + "budgets: {vision: 12.5}\nbudget_thresholds: [0.5, 1]\n")

    (group,) = json.loads(listed("--format", "rules").out)["groups"]

    assert [rule["labels"]["threshold"] for rule in group["rules"][2:]] == ["50%", "100%"]
    assert all(promql_parser.parse(rule["expr"]) for rule in group["rules"])
