"""A dashboard's JSON as plain values: its panels in sections, its variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]


def mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True, slots=True)
class Panel:
    content: Json

    @property
    def kind(self) -> str:
        return str(self.content.get("type", ""))

    @property
    def title(self) -> str:
        return str(self.content.get("title", ""))

    @property
    def description(self) -> str:
        return str(self.content.get("description", ""))

    @property
    def options(self) -> Json:
        return mapping(self.content.get("options"))

    @property
    def targets(self) -> Sequence[Json]:
        return [target for target in listed(self.content.get("targets")) if not target.get("hide")]

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Column, row, width, height on Grafana's grid of 24 columns."""
        place = mapping(self.content.get("gridPos"))
        return int(place.get("x", 0)), int(place.get("y", 0)), int(place.get("w", 24)), int(place.get("h", 8))

    def transformation(self, name: str) -> Json | None:
        for step in listed(self.content.get("transformations")):
            if step.get("id") == name:
                return mapping(step.get("options"))
        return None


@dataclass(frozen=True, slots=True)
class Section:
    """A row of the dashboard and what stands below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    uid: str
    title: str
    description: str
    variables: Sequence[Json]
    sections: Sequence[Section]
    file: Path


def load(path: Path) -> Dashboard:
    content: Any = json.loads(path.read_text())
    variables = [v for v in listed(mapping(content.get("templating")).get("list")) if v.get("type") != "datasource"]
    return Dashboard(
        uid=str(content["uid"]),
        title=str(content["title"]).removeprefix("GPU / "),
        description=str(content.get("description", "")),
        variables=variables,
        sections=_sections(listed(content.get("panels"))),
        file=path,
    )


def _sections(panels: Sequence[Json]) -> Sequence[Section]:
    made: list[tuple[str, list[Panel]]] = []
    for content in panels:
        if content.get("type") == "row":
            made.append((str(content.get("title", "")), [Panel(inner) for inner in listed(content.get("panels"))]))
        else:
            if not made:
                made.append(("", []))
            made[-1][1].append(Panel(content))
    return [Section(title, tuple(found)) for title, found in made if found]
