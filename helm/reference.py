"""The chart's README: the written part, and the table of values drawn from the file it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Row:
    section: str
    path: str
    default: str
    text: str


def rows(values: str) -> Iterator[Row]:
    """Every value that a comment beginning with `--` describes. Raises ValueError for one that none describes."""
    loaded = yaml.safe_load(values)
    section, text, described = "", "", ""
    parents: list[str] = []
    for line in values.splitlines():
        stripped = line.strip()
        if stripped.startswith("# @section "):
            section = stripped.removeprefix("# @section ")
        elif stripped.startswith("# -- "):
            text = stripped.removeprefix("# -- ")
        elif match := re.fullmatch(r"( *)([\w./-]+):(.*)", line):
            depth = len(match[1]) // 2
            parents = [*parents[:depth], match[2]]
            path = ".".join(parents)
            if text:
                yield Row(section, path, _default(loaded, parents), text)
                described, text = path, ""
            elif match[3].strip() and not path.startswith(f"{described}."):
                raise ValueError(f"values.yaml: {path} has no description")


def _default(values: Any, path: list[str]) -> str:
    at = values
    for key in path:
        at = at[key]
    return json.dumps(at)


def readme(template: str, values: str) -> str:
    return template.replace("{{ values }}", _values(values))


def _values(values: str) -> str:
    lines: list[str] = []
    section = ""
    for row in rows(values):
        if row.section != section:
            section = row.section
            lines += ["", f"### {section}", "", "| value | default | |", "|---|---|---|"]
        lines.append(f"| `{row.path}` | `{row.default}` | {row.text.replace('|', '&#124;')} |")
    return "\n".join(lines[1:])
