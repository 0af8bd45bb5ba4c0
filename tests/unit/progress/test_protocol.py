"""One report: what is taken of it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.progress.protocol import COUNTERS, LARGEST, MAX_NAME, MAX_PHASES, Report, parse


def text(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_every_counter_is_taken() -> None:
    report = parse(text(**dict.fromkeys(COUNTERS, 7)))

    assert report == Report(counters=dict.fromkeys(COUNTERS, 7.0))


def test_zero_is_a_rank_and_a_total() -> None:
    assert parse(text(rank=0, samples=0)) == Report(rank=0, counters={"samples": 0.0})


def test_whole_report() -> None:
    found = parse(
        text(
            version=1, pid=71, rank=3, group="dp0", group_size=4, tokens=4096, steps=10, total=40, remaining_seconds=30,
            phases={"data": 1.5, "communication": 0.5}, step_seconds=8, time_to_target_seconds=600,
        )
    )  # fmt: skip

    assert found == Report(
        pid=71,
        rank=3,
        group="dp0",
        group_size=4,
        counters={"tokens": 4096.0, "steps": 10.0},
        phases={"data": 1.5, "communication": 0.5},
        ratio=0.25,
        remaining=30.0,
        step_seconds=8.0,
        time_to_target=600.0,
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"samples": -1}',
        b'{"samples": 1e999}',
        b'{"samples": NaN}',
        b'{"samples": true}',
        b'{"samples": "7"}',
        b'{"pid": 7}',
        b'{"version": 2, "samples": 7}',
        b'{"samples": 7, "x": "' + b"a" * LARGEST + b'"}',
        b"[" * 3000,
    ],
)
def test_what_is_no_report_is_refused(content: bytes) -> None:
    assert parse(content) is None


def test_names_are_bounded() -> None:
    phases = {f"phase{number}": 1 for number in range(100)} | {"x" * 400: 1, "a\nb": 1}
    found = parse(text(samples=1, group="g" * 400, phases=dict(reversed(phases.items()))))

    assert found
    assert len(found.phases) == MAX_PHASES
    assert max(map(len, found.phases)) <= MAX_NAME
    assert "a\nb" not in found.phases
    assert len(found.group) == MAX_NAME


def test_more_than_all_is_all() -> None:
    found = parse(text(steps=50, total=40))

    assert found
    assert found.ratio == 1.0


@given(
    st.binary(max_size=600)
    | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(json.dumps).map(str.encode)
)
def test_nothing_breaks_the_parser(content: bytes) -> None:
    parse(content)
