"""Every panel of every dashboard shows the truth: by what Prometheus answers, before Grafana draws it."""

from __future__ import annotations

import pytest

from tests.contract.dashboards.reading import NAMES
from tests.contract.dashboards.vocabulary import METRICS, TARGET
from tests.panels.asked import Answered, Cell
from tests.panels.series import families
from tests.panels.truth import Shown, Truth, named, quantities_used, shown

pytestmark = pytest.mark.xdist_group("panels")

Answers = dict[tuple[str, str], Answered]
SHOWN = list(shown())
_LABELS_OF_PODS = {"label_pool"}
"""An option names them."""
_OTHERS = ("vllm:", "kube_", "cluster:")
"""Metrics of engines, of kube-state-metrics and of our recording rules are not those of the exporter."""


def test_series_are_such_as_exporter_serves() -> None:
    known = {name: labels - TARGET for name, labels in families().items() if not name.startswith(_OTHERS)}

    assert {name for name in known if name not in METRICS} == set()
    assert {
        name: left for name, labels in known.items() if (left := labels - METRICS[name].labels - _LABELS_OF_PODS)
    } == {}


def test_every_panel_and_column_names_its_quantity(answers: Answers) -> None:
    told = {(each.board, each.panel): each for each in SHOWN}
    silent = [where for where in answers if where[0] in NAMES and where not in told]
    columns = {
        where: untold
        for where, each in told.items()
        if answers[where].panel["type"] == "table" and each.rows and (untold := _untold(answers[where], each))
    }

    assert silent == []
    assert columns == {}


def _untold(answered: Answered, each: Shown) -> set[str]:
    cells = next(iter(each.rows.values()))
    columns = set(answered.columns())
    return columns ^ {*cells, *(columns & {*each.key})}


def test_every_quantity_is_shown_by_panel() -> None:
    assert named() - quantities_used() == set()


@pytest.mark.parametrize("each", SHOWN, ids=lambda each: f"{each.board} / {each.panel}")
def test_panel_on_known_cluster_answers_truth(answers: Answers, each: Shown) -> None:
    found = answers[each.board, each.panel].rows(each.key)
    if set(each.rows) == {""} and len(found) == 1:
        found = {"": next(iter(found.values()))}

    assert set(found) == set(each.rows)
    wrong = {
        (row, title): (cells.get(title), expected and expected.text)
        for row, cells in found.items()
        for title, expected in each.rows[row].items()
        if not _is(cells.get(title), expected)
    }
    assert wrong == {}


def _is(cell: Cell | None, expected: Truth | None) -> bool:
    if expected is None or cell is None:
        return cell in {None, ""} and expected is None
    if isinstance(cell, str):
        return cell == expected.words
    return cell == pytest.approx(expected.number, rel=expected.tolerance, abs=1e-9)
