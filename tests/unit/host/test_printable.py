"""What users write commands no terminal, log or page."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.printable import printable, printable_json


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python3 train.py", "python3 train.py"),
        ("größe 训练 🚀", "größe 训练 🚀"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("x\nGPU OK - 8 GPUs answer", r"x\nGPU OK - 8 GPUs answer"),
        ("a\u202eb\u2066c\u200fd\u2028e", r"a\u202eb\u2066c\u200fd\u2028e"),
        ("\x9b2J\x7f\x00", r"\x9b2J\x7f\x00"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_printable_escapes_what_a_terminal_acts_on(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text(st.characters()))
def test_printable_is_one_line(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize("indent", [None, 2])
@given(text=st.text(st.characters()))
def test_printable_json_has_the_same_values(indent: int | None, text: str) -> None:
    shown = printable_json({"name": [text]}, indent)

    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == {"name": [text]}
