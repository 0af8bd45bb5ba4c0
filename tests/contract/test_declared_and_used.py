"""An option that is declared is read, and a metric that is declared is shown by a stored exposition."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from exporter.core.families import AnyFamily
from exporter.daemon.config import DaemonConfig
from exporter.sampling.families import families

ROOT = Path(__file__).resolve().parents[2]
TIMED = frozenset(
    {
        "gpu_scrape_collector_duration_seconds",
        "gpu_exporter_sampling_cycle_duration_seconds",
        "gpu_exporter_accounting_write_age_seconds",
    }
)
"""What this machine's speed decides: no stored text has them."""
OF_EVERY_STATE = frozenset({"gpu_exporter_state_detectable"})
"""Compared in tests/contract/cycles/test_cycles.py."""


def attributes(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr


@functools.cache
def read() -> frozenset[str]:
    return frozenset(name for path in (ROOT / "exporter").rglob("*.py") for name in attributes(path))


def fields_of(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield the class and field of each option."""
    for item in fields(kind):
        value = getattr(kind(), item.name)
        if is_dataclass(value) and value.__class__.__name__.endswith("Config"):
            yield from fields_of(type(value))
        else:
            yield kind.__name__, item.name


@functools.cache
def shown() -> frozenset[str]:
    return frozenset(
        name
        for folder in ("tests/captures", "tests/contract/cycles")
        for name in re.findall(r"^ *(gpu_\w+)[{ ]", (ROOT / folder / "expected.txt").read_text(), re.MULTILINE)
    )


@pytest.mark.parametrize(("kind", "field"), list(fields_of(DaemonConfig)))
def test_option_is_read(kind: str, field: str) -> None:
    assert field in read(), f"nothing in exporter/ reads {kind}.{field}"


@pytest.mark.parametrize("family", families(), ids=lambda family: family.name)
def test_metric_is_shown(family: AnyFamily) -> None:
    is_shown = family.name in shown() | TIMED | OF_EVERY_STATE

    assert is_shown, f"{family.name} is in no expected.txt of tests/captures or tests/contract/cycles: add it to a case"
