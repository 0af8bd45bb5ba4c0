"""The binding's answers as plain data: no ctypes object leaves this package."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from exporter.driver.interface import Record
from exporter.driver.nvml.binding import nvml


def plain(answer: Any) -> Any:
    """int, float, str, None, tuples of these, and Records for structs."""
    if answer is None or type(answer) in _PLAIN:
        return answer
    if type(answer) is str:
        return _printable(answer)
    for kind, convert in _CONVERTERS.items():
        if isinstance(answer, kind):
            return convert(answer)
    return plain(getattr(answer, "value", None))  # c_uint and its like; a pointer means nothing outside of C


def _text(answer: bytes) -> str:
    return _printable(answer.rstrip(b"\0").decode(errors="replace"))


def _printable(text: str) -> str:
    """Names go to terminals and into one-line answers: what a driver puts between the letters commands neither."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def _tuple(answer: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(plain(item) for item in answer)


def _struct(answer: Any) -> Record:
    kind: Any = answer.__class__
    return Record(**{name: plain(getattr(answer, name)) for name in _names(kind)})


@cache
def _names(struct: Any) -> tuple[str, ...]:
    return tuple(entry[0] for entry in struct._fields_)


def _friendly(answer: Any) -> Record:
    values: dict[str, Any] = answer.__dict__
    return Record(**{name: plain(value) for name, value in values.items()})


_PLAIN = frozenset({int, float})
_CONVERTERS: Mapping[type[Any], Callable[[Any], Any]] = {
    bool:                    int,
    int:                     int,
    bytes:                   _text,
    list:                    _tuple,
    tuple:                   _tuple,
    ctypes.Array:            _tuple,
    ctypes.Structure:        _struct,
    ctypes.Union:            _struct,
    nvml.nvmlFriendlyObject: _friendly,
}  # fmt: skip
