"""Plain data as JSON and back."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.driver.interface import (
    DeviceLostError,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    Record,
    UnsupportedError,
)
from exporter.tools.capture.replay import decode, encode

NAMES = st.from_regex(r"[a-z][A-Za-z0-9]{0,8}", fullmatch=True)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PLAIN = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.integers() | st.text() | st.tuples(st.integers(), st.integers()), inner, max_size=4),
        st.dictionaries(NAMES, inner, max_size=4).map(lambda fields: Record(**fields)),
    ),
    max_leaves=12,
)


@given(PLAIN)
def test_plain_data_survives_json(answer: object) -> None:
    again = decode(json.loads(json.dumps(encode(answer))))

    assert again == answer
    assert repr(again) == repr(answer)  # 1, 1.0 and True are equal, and not the same


def test_nan_survives_json() -> None:
    assert math.isnan(decode(json.loads(json.dumps(encode((math.nan,)), allow_nan=False)))[0])


@pytest.mark.parametrize("kind", [DriverError, UnsupportedError, DeviceLostError, DriverGoneError, DriverMismatchError])
def test_errors_keep_their_kind_code_and_message(kind: type[DriverError]) -> None:
    again = decode(json.loads(json.dumps(encode(kind("why", "CODE")))))

    assert (type(again), again.code, str(again)) == (kind, "CODE", "why")


@pytest.mark.parametrize(
    "value", [{}, {"what": 1}, {"record": 3}, {"map": [1]}, {"error": "OSError", "code": "", "message": ""}]
)
def test_other_objects_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a record, map, float or error"):
        decode(value)


def test_what_is_not_plain_data_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes is no plain data"):
        encode(b"raw")
