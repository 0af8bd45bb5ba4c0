"""Files that the site writes for the exporter (configuration, credentials, captures): read whole, of bounded size.

YAML has each key once, and is nested no further than a person would nest it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import yaml

_KIB, _MIB = 1 << 10, 1 << 20
MAX_BYTES = 1 << 20
"""Bytes; a ConfigMap cannot hold more either."""
FILES_SECONDS = 2.0
"""Seconds to wait for such files in all. Their mount may hang: then they stay as they were."""
_MOST = 100_000
"""Values, each counted as often as anchors repeat it: nine lines of them can stand for a billion."""


class SiteFileError(ValueError):
    """Fault of the file, in words that follow its name."""


def read_bytes(path: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else, and above `limit` bytes.

    Nothing is waited for: a pipe without a writer would stop the reader, and a device may have no end.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        size = f"{limit // _MIB} MiB" if limit >= _MIB else f"{limit // _KIB} KiB"
        raise OSError(errno.EFBIG, f"larger than {size}")
    return content


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def read(path: Path, limit: int = MAX_BYTES) -> str:
    """Return the text of a regular file of at most `limit` bytes. Raises SiteFileError."""
    try:
        return read_bytes(path, limit).decode()
    except OSError as error:
        raise SiteFileError(error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise SiteFileError(f"not UTF-8: {error.reason} at byte {error.start}") from None
    except ValueError:  # a NUL in its name
        raise SiteFileError("not the name of a file") from None


def load_yaml(path: Path) -> Any:
    """Return the contents of the file. Raises SiteFileError, in words that follow the file's name."""
    try:
        found = _parse_yaml(read(path))
        size = _value_count(found, {})
    except RecursionError:
        raise SiteFileError("not YAML: nested too deeply") from None
    if size > _MOST:
        raise SiteFileError(f"more than {_MOST} values, or one within itself")
    return found


def _parse_yaml(text: str) -> Any:
    import yaml  # noqa: PLC0415 - few nodes have such a file; else no parser is loaded

    class Loader(yaml.SafeLoader):
        """Refuses a key that is there twice, as Prometheus does: the first of them would be dropped without a word."""

        def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
            node = super().compose_mapping_node(anchor)
            seen = set[str]()
            for key, _ in cast("Iterable[tuple[yaml.Node, yaml.Node]]", node.value):
                if isinstance(key, yaml.ScalarNode):
                    name = str(key.value)
                    if name in seen:
                        raise yaml.MarkedYAMLError(None, None, f"key {name!r} is there twice", key.start_mark)
                    seen.add(name)
            return node

    try:
        return yaml.load(text, Loader)  # noqa: S506 - a safe one
    except yaml.YAMLError as error:
        raise SiteFileError(f"not YAML: {' '.join(str(error).split())}") from None
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        # PyYAML's own converters, at a number of endless digits, a 31st of February or a wrong word behind `!!bool`.
        raise SiteFileError(f"not YAML: {error}") from None


def _value_count(value: Any, known: dict[int, int]) -> int:
    """Return the number of values, each as often as it is repeated; above all limits where one contains itself."""
    if not isinstance(value, dict | list):
        return 1
    parts = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    place = id(cast("object", value))
    if place not in known:
        known[place] = _MOST + 1  # until it is counted
        known[place] = 1 + sum(_value_count(part, known) for part in parts)
    return known[place]
