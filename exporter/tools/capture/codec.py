"""A driver's plain data as JSON and back: records, tuples, maps with any plain keys, errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from exporter.driver.interface import (
    DeviceLostError,
    DriverError,
    DriverGoneError,
    DriverMismatchError,
    Record,
    UnsupportedError,
)

_ERRORS: Mapping[str, type[DriverError]] = {
    error.__name__: error
    for error in (DriverError, UnsupportedError, DeviceLostError, DriverGoneError, DriverMismatchError)
}
_PLAIN = (str, int, float, bool)


def encode(answer: Any) -> Any:
    """JSON for an answer, or for the DriverError it was. Raises TypeError for what is not plain data.

    Tuples are JSON lists; everything else that JSON has no word for is an object with one key that names it.
    """
    if isinstance(answer, DriverError):
        name = type(answer).__name__ if type(answer).__name__ in _ERRORS else DriverError.__name__
        return {"error": name, "code": answer.code, "message": str(answer)}
    if isinstance(answer, Record):
        return {"record": {name: encode(value) for name, value in vars(answer).items()}}
    if isinstance(answer, tuple | list):
        return [encode(item) for item in cast("list[Any]", answer)]
    if isinstance(answer, dict):
        pairs = cast("Mapping[Any, Any]", answer)
        return {"map": [[encode(key), encode(value)] for key, value in pairs.items()]}
    if isinstance(answer, float) and not math.isfinite(answer):
        return {"float": repr(answer)}
    if answer is None or isinstance(answer, _PLAIN):
        return answer
    raise TypeError(f"{type(answer).__name__} is no plain data")


def decode(value: Any) -> Any:
    """The answer behind JSON; a DriverError is returned. Raises ValueError for what `encode` never wrote."""
    if isinstance(value, list):
        return tuple(decode(item) for item in cast("Sequence[Any]", value))
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    try:
        if "record" in fields:
            return Record(**{name: decode(item) for name, item in fields["record"].items()})
        if "map" in fields:
            return {decode(key): decode(item) for key, item in fields["map"]}
        if "float" in fields:
            return float(fields["float"])
        return _ERRORS[fields["error"]](str(fields["message"]), str(fields["code"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"answer {value!r}; expected a record, map, float or error") from error
