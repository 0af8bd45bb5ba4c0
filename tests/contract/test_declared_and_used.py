"""An option that is declared is read, and a metric that is declared is shown by a stored exposition."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.load import options
from exporter.config.option import Option
from exporter.core.families import AnyFamily
from exporter.sampling.families import families

ROOT = Path(__file__).resolve().parents[2]
DECLARED = (ROOT / "exporter/config/option.py", ROOT / "exporter/config/load.py")
BY_PREFIX = ("collector.", "ledger.")
"""Options that are made one for each collector or threshold, and read in a loop."""
TIMED = frozenset({"gpu_scrape_collector_duration_seconds", "gpu_exporter_pass_duration_seconds"})
"""What this machine's speed decides: no stored text has them."""


def strings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@functools.cache
def read() -> frozenset[str]:
    files = (path for path in (ROOT / "exporter").rglob("*.py") if path not in DECLARED)
    return frozenset(text for path in files for text in strings(path))


@functools.cache
def shown() -> frozenset[str]:
    return frozenset(
        name
        for path in (ROOT / "tests/captures/expected.txt", *ROOT.glob("tests/contract/passes/expected/*.txt"))
        for name in re.findall(r"^ *(gpu_\w+)[{ ]", path.read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize("option", options(), ids=lambda option: option.name)
def test_option_is_read(option: Option) -> None:
    is_read = option.name in read() or option.name.startswith(BY_PREFIX)

    assert is_read, f"nothing in exporter/ reads config[{option.name!r}]"


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_metric_is_shown(family: AnyFamily) -> None:
    is_shown = family.name in shown() or family.name in TIMED

    assert is_shown, (
        f"{family.name} is in no text of tests/captures or tests/contract/passes/expected: add it to a case"
    )
