from __future__ import annotations

import pytest

from tests.hardware import report
from tests.hardware.exported import judged, judged_effect
from tests.hardware.figures import paired
from tests.hardware.verdict import DIFFERS, OK, UNMEASURED, Verdict, cell, table, verdicts


def verdict(measured: float | None, reference: float | None = 100.0) -> Verdict:
    return Verdict("energy", "J", measured, reference, "nvidia-smi", tolerance=3.0)


def test_verdict_goes_by_the_tolerance_in_both_directions() -> None:
    assert [verdict(value).outcome for value in (97.1, 102.9, 96.9, 103.1)] == [OK, OK, DIFFERS, DIFFERS]


def test_what_has_no_reference_is_not_measured() -> None:
    assert [verdict(None).outcome, verdict(1.0, None).outcome, verdict(1.0, 0.0).outcome] == [UNMEASURED] * 3


def test_verdicts_are_shown_with_their_error() -> None:
    assert verdicts([verdict(102.0).plain(), verdict(None).plain()]).splitlines()[2:] == [
        "| energy | 102 | 100 | J | nvidia-smi | 2 | 3 | ok |",
        "| energy | - | 100 | J | nvidia-smi | - | 3 | not measured |",
    ]


def test_table_refuses_a_row_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="a row of 1 cells under 2 headings"):
        table(("a", "b"), [("c",)])


def test_cells() -> None:
    assert [cell(value) for value in (None, 0.0, 1234567.0, (1, 2), "a|b\nc", True)] == [
        "-", "0", "1.2346e+06", "1, 2", "a\\|b c", "True",
    ]  # fmt: skip


def test_waiting_is_judged_among_the_waiting_time() -> None:
    found = judged("input", ("wait_cpu",), {"computing": 5.0, "wait_cpu": 4.5, "wait_other": 0.5})

    assert (found["share"], found["outcome"]) == (pytest.approx(0.9), OK)
    assert judged("dense", ("computing",), {"computing": 5.0, "wait_cpu": 5.0})["outcome"] == DIFFERS
    assert judged("dense", ("computing",), None)["outcome"] == UNMEASURED
    assert judged("held", ("wait_other",), {"computing": 5.0})["outcome"] == DIFFERS


def test_load_between_two_states_may_have_both_of_them() -> None:
    found = judged(
        "tiny", ("low_sm_activity", "wait_cpu"), {"low_sm_activity": 2.0, "wait_cpu": 7.0, "wait_other": 1.0}
    )

    assert (found["expected"], found["share"]) == ("low_sm_activity or wait_cpu", pytest.approx(0.9))
    assert found["outcome"] == OK


def test_effect_on_the_load_is_judged_by_scatter_and_by_size() -> None:
    scattered, small = [(100.0, 95.0), (100.0, 104.0)], [(100.0, 99.9), (100.0, 99.9)]
    slower = [(100.0, 98.0), (100.0, 98.1), (100.0, 97.9)]

    assert [judged_effect(paired(pairs))["outcome"] for pairs in (scattered, small, slower, [])] == [
        OK, OK, DIFFERS, UNMEASURED,
    ]  # fmt: skip


def test_report_of_a_part_that_broke_still_shows_the_others() -> None:
    parts = {"comparisons": {"verdicts": [verdict(110.0).plain()], "nvidia_smi": "asked"}, "answers": {"driver": "580"}}

    text = report.render({"loads": "torch"}, parts, {"comparisons": "whole", "answers": "broken: status -11"})

    assert "| answers | broken: status -11 |" in text
    assert "| energy | 110 | 100 |" in text
    assert "No load ran" not in text
    assert report.differing(parts) == 1
