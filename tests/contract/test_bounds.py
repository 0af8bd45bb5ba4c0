"""Deadlines, sizes, counts and thresholds, as the code declares them: none changes without being read in a difference.

What runs where a module is read is beyond the reach of `make mutate`, and few tests can wait for ten minutes or send a
gigabyte. So each number that is declared by name stands in a stored list: of a module, and a default of a record.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import golden

FOLDERS = ("exporter", "deploy/progress")
STORED = Path(__file__).with_name("bounds.txt")
ELSEWHERE = tuple(
    f"exporter/{each}"
    for each in ("driver/constants.py", "driver/nvml/structs.py", "ledger/thresholds.py", "reference/", "simulator/")
)
"""Numbers that tests of their own compare: NVIDIA's, those of a table in docs/, and those of made-up GPUs."""
_LONGEST = 160
"""Characters of an expression: what is longer is a table, not a bound."""


def test_no_bound_changes_unseen(request: pytest.FixtureRequest) -> None:
    golden.compare(STORED, "".join(_listed()), request)


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("_MOST = 8", ["_MOST = 8"]),
        ("SIZE: int = 4 << 20", ["SIZE = 4 << 20"]),
        ("_PAUSE, _TRIES = 5.0, 3", ["_PAUSE, _TRIES = 5.0, 3"]),
        ("class A:\n    b: float = 2.0", ["A.b = 2.0"]),
        ("FLAG = True", []),
        ("def f():\n    X = 1", []),
        ("_WORD = 'x'", []),
    ],
)
def test_numbers_that_are_declared_are_listed(code: str, found: Sequence[str]) -> None:
    assert list(_declared(code, ast.parse(code).body)) == found


def _listed() -> Iterator[str]:
    for path in sorted(path for folder in FOLDERS for path in (golden.ROOT / folder).rglob("*.py")):
        name = path.relative_to(golden.ROOT).as_posix()
        if not name.startswith(ELSEWHERE):
            code = path.read_text()
            yield from (f"{name}: {each}\n" for each in _declared(code, ast.parse(code).body))


def _declared(code: str, body: Sequence[ast.stmt], of: str = "") -> Iterator[str]:
    """Each number with its name, in the order of the file."""
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _declared(code, statement.body, f"{of}{statement.name}.")
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            value = " ".join((ast.get_source_segment(code, statement.value) or "").split())
            if _has_number(statement.value) and len(value) <= _LONGEST:
                yield f"{of}{ast.unparse(target).strip('()')} = {value}"


def _has_number(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in ast.walk(value))
