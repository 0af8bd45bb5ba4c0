"""docs/config.schema.json, for editors: the YAML file of options as JSON Schema.

`python -m exporter.tools.reference.schema FILE` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from exporter import REPOSITORY
from exporter.config import kinds
from exporter.config.kinds import Choice, DurationUpTo, Pairs, Subset, address
from exporter.config.option import Option
from exporter.tools.reference.shell_completion import commands

Schema = dict[str, Any]

_DURATION = {"type": ["string", "number"], "pattern": r"^\d+(\.\d+)?(ms|s|m|h|d)?$"}
_KINDS: Mapping[Any, Schema] = {
    kinds.boolean: {"type": "boolean"},
    kinds.duration: _DURATION,
    kinds.positive_duration: _DURATION,
    kinds.non_negative_int: {"type": "integer", "minimum": 0},
    kinds.number: {"type": "number"},
    kinds.non_negative: {"type": "number", "minimum": 0},
    kinds.ratio: {"type": "number", "minimum": 0, "maximum": 1},
    kinds.names: {"type": ["string", "array"], "items": {"type": "string"}},
    address: {"type": "string", "pattern": r":\d{1,5}$"},
    kinds.url_path: {"type": "string", "pattern": "^/(?!-/|runbooks/|api/v1/allocations$)."},
}


def schema() -> Schema:
    """Each option by its whole name, and nested at its dots."""
    known = {option.name: option for options in commands().values() for option in options}
    properties: Schema = {}
    for option in known.values():
        _place_leaf(properties, option.name.split("."), value(option))
    properties |= {name: value(option) for name, option in known.items() if "." in name}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{REPOSITORY}/blob/main/docs/config.schema.json",
        "title": "Options of gpu-exporter (--config.file)",
        "type": "object",
        "additionalProperties": False,
        "properties": dict(sorted(properties.items())),
    }


def value(option: Option) -> Schema:
    """Return the schema of an option's value."""
    default = option.shown_default
    description = f"{option.help} Default: {default}." if default else option.help
    return {**_kind_schema(option.parse), "description": description}


def _kind_schema(parse: Callable[[str], Any]) -> Schema:
    if isinstance(parse, Choice):
        words: list[str | bool] = [*parse.known, *((True, False) if "on" in parse.known else ())]
        return {"anyOf": [{"enum": words}, {"type": "string", "pattern": "^/"}]} if parse.or_path else {"enum": words}
    if isinstance(parse, Subset):
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"enum": list(parse.known)}}]}
    if isinstance(parse, Pairs):
        each = {name: _kind_schema(kind) for name, kind in parse.kinds.items()}
        mapping = {"type": "object", "additionalProperties": False, "properties": each}
        if parse.pattern:
            mapping["patternProperties"] = {f"^{parse.pattern}$": _kind_schema(parse.kind)}
        return {"anyOf": [{"type": "string"}, mapping]}
    return _DURATION if isinstance(parse, DurationUpTo) else dict(_KINDS.get(parse, {"type": "string"}))


def _place_leaf(properties: Schema, path: list[str], leaf: Schema) -> None:
    """Put a leaf where the dots of its name lead; an option with others below it is also a mapping with `value`."""
    first, *rest = path
    found = properties.get(first)
    if not rest:
        properties[first] = _merge_schemas(leaf, found) if found else leaf
        return
    if found is None or "properties" not in _branch_schema(found):
        branch: Schema = {"type": ["object", "null"], "additionalProperties": False, "properties": {}}
        properties[first] = branch
        if found is not None:
            properties[first] = _merge_schemas(found, branch)
    _place_leaf(_branch_schema(properties[first])["properties"], rest, leaf)


def _branch_schema(found: Schema) -> Schema:
    """The mapping among what a key may be."""
    return next((each for each in found.get("anyOf", ()) if "properties" in each), found)


def _merge_schemas(leaf: Schema, branch: Schema) -> Schema:
    branch["properties"]["value"] = leaf
    return {"anyOf": [leaf, branch]}


def written(content: Schema) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Iterable[str]) -> None:
    for file in arguments:
        Path(file).write_text(written(schema()))


if __name__ == "__main__":
    main(sys.argv[1:])
