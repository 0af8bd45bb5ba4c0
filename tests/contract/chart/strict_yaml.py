"""YAML that refuses a key given twice: Helm, the schemas and PyYAML all let it pass, and the last one wins."""

from __future__ import annotations

from typing import Any

import yaml


class _Loader(yaml.CSafeLoader):  # a tenth of the time that PyYAML's own takes
    pass


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node, deep=True)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key given twice: {key}", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def load_all(text: str) -> list[Any]:
    return [document for document in yaml.load_all(text, _Loader) if document]
