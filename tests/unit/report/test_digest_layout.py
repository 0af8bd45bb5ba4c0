"""The digest's tables: what nobody reports takes no column, and a bound is called one."""

from __future__ import annotations

import pytest

from exporter.report import layout_digest
from exporter.report.formats import plain
from exporter.report.model import Digest, Row
from exporter.report.terminal import Colors


def said(**more: float) -> str:
    row = Row({"user": "ada"}, 10.0, 2.0, 0.8, 6.0, "wait_cpu", **more)
    digest = Digest("everybody", 0.0, 3600.0, 10.0, 2.0, {"user": (row,)}, {}, ())
    return plain.render(layout_digest.document(digest, "$"), Colors(colours=False))


@pytest.mark.parametrize(
    ("more", "head", "cell"),
    [
        ({"model_flops_utilization": 0.41}, "Utilization   MFU  Wasted", "80 %  41 %"),
        ({"model_flops_utilization_bound": 0.62}, "Utilization  MFU at most  Wasted", "80 %         62 %"),
    ],
)
def test_model_flops_stand_beside_utilization(more: dict[str, float], head: str, cell: str) -> None:
    text = said(**more)

    assert head in text
    assert cell in text


def test_what_nobody_reports_has_no_column() -> None:
    assert "MFU" not in said()
