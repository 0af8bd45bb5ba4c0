"""Prices that are none are told of their option, in one line, before anything is asked."""

from __future__ import annotations

import pytest

from exporter.tools.report.definitions import parse_prices, price_of
from tests.command import run

ODD = ["(?i)h200=1", "(=1", "a)(b=1", "(" * 5000 + "=1", "a{99999999999999999999}=1", "x=nan", "x=1e999", "=1", "x=٣ 4"]


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_price_is_refused_where_it_is_read(value: str) -> None:
    with pytest.raises(ValueError, match=r"^MODEL=PRICE with commas between"):
        parse_prices(value)


@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_price_is_one_line_and_no_traceback(value: str) -> None:
    done = run("report", "1", "--price", value, "--prometheus.url", "http://127.0.0.1:1")

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("gpu-exporter: --price: expected MODEL=PRICE")


def test_price_that_is_read_can_be_looked_up() -> None:
    prices = parse_prices("H200|H100=2.5, A100.*80GB=1")

    assert [price_of(model, prices) for model in ("NVIDIA H100 PCIe", "A100-SXM4-80GB", "T4")] == [2.5, 1.0, 0.0]
