"""The site's file of prices: its defaults, the months it is counted in, and what is refused."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import pytest

from exporter.config.load import load
from exporter.config.option import ConfigError
from exporter.tools.report.accounting.prices import Month, PriceRow, Prices, forecast, month_at, read
from exporter.tools.report.command import run
from exporter.tools.report.options import ReportConfig


def test_price_file_without_options_is_in_dollars_and_alerts_at_80_and_100_percent(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text("prices: [{per_gpu_hour: 2}]\nteams: {ai: [vision, 7]}\n")

    assert read(tmp_path / "prices.yaml") == Prices(
        "USD", (PriceRow("", 2.0),), 0.0, 0.0, {}, {"vision": "ai", "7": "ai"}, (0.8, 1.0)
    )


def test_month_at_the_end_of_a_year_ends_with_the_year(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        found = month_at(datetime(2026, 12, 31, 23, tzinfo=timezone.utc).timestamp())
    finally:
        monkeypatch.undo()
        time.tzset()

    begin, end = (datetime(year, month, 1, tzinfo=timezone.utc) for year, month in ((2026, 12), (2027, 1)))
    assert found == Month("2026-12", begin.timestamp(), end.timestamp())


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prices: [{modell: H100, per_gpu_hour: 3}]", "unknown key modell, did you mean model"),
        ("prices: [{model: H100, per_gpu_hour: -3}]", "expected an amount of 0 or more, got -3"),
        ("prices: [{model: H100}]", "'per_gpu_hour'"),
        ("prices: [{per_gpu_hour: 3, from: 2026-10-02, to: 2026-10-01}]", "from 2026-10-02 is not before"),
        ("prices: []\nelectricity: 0.3", "unknown key electricity"),
        ("prices: [{model: H100, per_gpu_hour: 3, from: soon}]", "expected a day such as 2026-10-16, got soon"),
        (
            "prices: [{per_gpu_hour: 3, from: 2026-10-16 12:00:00}]",
            "expected a day such as 2026-10-16, got 2026-10-16 12",
        ),
        ("prices: [{per_gpu_hour: 3, to: 20261016}]", "expected a day such as 2026-10-16, got 20261016"),
        ("prices: [{per_gpu_hour: 3, model: [H100]}]", "expected a name, in quotes if need be, got ['H100']"),
        ("prices: []\nteams: {vision: [no]}", "expected a name, in quotes if need be, got False"),
        ("prices: []\nteams: {yes: [cv]}", "expected a name, in quotes if need be, got True"),
        ("prices: []\nbudgets: {1.5: 5}", "expected a name, in quotes if need be, got 1.5"),
        ("prices: []\nteams: {vision: [cv, nlp], speech: [nlp]}", "nlp is of team vision and of team speech"),
        ("prices: []\nteams: {vision: [cv]}\nbudgets: {cv: 5}", "the budget of cv has no time: it is of team vision"),
        ("currency: EUR", "expected 'prices'"),
        ("currency: EURO\nprices: []", "expected a currency such as EUR, got EURO"),
        ("", "expected keys with values, got None"),
        ("prices: {H100: 3}", "expected a list of prices, got {'H100': 3}"),
        ("prices: [3]", "expected keys with values, got 3"),
        ("prices: [{per_gpu_hour: three}]", "expected an amount of 0 or more, got three"),
        ("prices: []\nelectricity_per_kwh: -1", "expected an amount of 0 or more, got -1"),
        ("prices: []\nteams: {vision: cv}", "expected a list of owners, got 'cv'"),
        ("prices: [{profile: 1g10gb, per_gpu_hour: 1}]", "expected a MIG profile such as 1g.10gb, got 1g10gb"),
        ("prices: [{per_gpu_hour: 3}, {model: H100, per_gpu_hour: 2}]", "price 2 has GPUs and days of price 1"),
        (
            "prices: [{per_gpu_hour: 3, to: 2026-10-16},{pool: a,per_gpu_hour: 1},{per_gpu_hour: 2, from: 2026-10-15}]",
            "price 3 has GPUs and days of price 1",
        ),
    ],
)
def test_wrong_file_is_refused_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    options = ("--month", "2026-10", "--prices.file", str(tmp_path / "prices.yaml"))

    with pytest.raises(ConfigError) as refused:
        run(load(ReportConfig, options, {}))

    assert complaint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_forecast_continues_the_mean_of_the_hours_that_have_data() -> None:
    """10 days cost 240, of which 5 have data; 20 days are to come."""
    day = 86400.0

    assert forecast(240.0, 120, 10 * day, 0.0, 30 * day) == 240 + 240 / 120 * 20 * 24
    assert forecast(240.0, 120, 31 * day, 0.0, 30 * day) == 240
    assert forecast(0.0, 0, 10 * day, 0.0, 30 * day) == 0
