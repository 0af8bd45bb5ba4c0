"""A number as Go writes it, which is how Prometheus does."""

from __future__ import annotations

import math

_PLAIN = 1e6
"""From here on Go writes an exponent."""


def go_number(value: float) -> str:
    """Most values are so small that Go writes them as Python does; NaN is not and goes the long way."""
    return repr(float(value)) if -_PLAIN < value < _PLAIN else _long(float(value))


def _long(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    whole, dot, part = text.partition(".")
    if value < 0 or not dot or len(whole) == 1:  # as the client libraries do, or Python has written the exponent
        return text
    digits = f"{whole[0]}.{whole[1:]}{part}".rstrip("0.")
    return f"{digits}e+{len(whole) - 1:02d}"
