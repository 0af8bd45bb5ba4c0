"""YAML that the site writes: each key once, nested and referring to itself no further than a person would."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import yaml

from exporter.core.site_file import SiteFileError, read

_LARGEST = 1 << 20
"""Bytes; a ConfigMap cannot hold more either."""
_MOST = 100_000
"""Values, each counted as often as anchors repeat it: nine lines of them can stand for a billion."""


def load(path: Path) -> Any:
    """What the file holds. Raises SiteFileError, in words that follow the file's name."""
    try:
        found = _parsed(read(path, _LARGEST))
        size = _size(found, {})
    except RecursionError:
        raise SiteFileError("not YAML: nested too deeply") from None
    if size > _MOST:
        raise SiteFileError(f"more than {_MOST} values, or one within itself")
    return found


def _parsed(text: str) -> Any:
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise SiteFileError(f"not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        # PyYAML's own converters, at a number of endless digits, a 31st of February or a wrong word behind `!!bool`.
        raise SiteFileError(f"not YAML: {error}") from None


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, as Prometheus does: the first of them would be dropped without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002
        seen = set[str]()
        for key, _ in cast("Iterable[tuple[yaml.Node, yaml.Node]]", node.value):
            if isinstance(key, yaml.ScalarNode):
                name = str(key.value)
                if name in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {name!r} is there twice", key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep)


def _size(value: Any, known: dict[int, int]) -> int:
    """How many values there are, each as often as it is repeated; more than all where one is within itself."""
    if not isinstance(value, dict | list):
        return 1
    parts = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    place = id(cast("object", value))
    if place not in known:
        known[place] = _MOST + 1  # until it is counted
        known[place] = 1 + sum(_size(part, known) for part in parts)
    return known[place]
