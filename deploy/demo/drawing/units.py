"""Numbers as Grafana's units write them, for the units the dashboards use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import datetime, timezone

_SI = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))
_DURATION = ((86400.0, "days"), (3600.0, "hours"), (60.0, "mins"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_SHORT = {"short": "", "none": "", "cps": " c/s", "ops": " ops/s", "reqps": " req/s", "watt": " W", "joule": " J",
          "hertz": " Hz", "Bps": "B/s"}  # fmt: skip
_PLAIN: Mapping[str, str] = {"celsius": " °C", "percent": " %", "rotrpm": " rpm"}


def known(unit: str) -> bool:
    return unit.startswith(("prefix:", "suffix:")) or unit in {*_PLAIN, *_SHORT, *_UNITS}


def show(value: float, unit: str = "none", decimals: int | None = None) -> str:
    """`value` as a reader sees it; a unit that is not known is written behind the number."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if unit.startswith("suffix:"):
        return f"{_digits(value, decimals, 1)} {unit.removeprefix('suffix:')}"
    if unit.startswith("prefix:"):
        return f"{unit.removeprefix('prefix:')}{_digits(value, decimals, 2)}"
    if unit in _PLAIN:
        return f"{_digits(value, decimals, 1)}{_PLAIN[unit]}"
    return _UNITS[unit](value, decimals) if unit in _UNITS else _prefixed(value, unit, decimals)


def _prefixed(value: float, unit: str, decimals: int | None) -> str:
    suffix = _SHORT.get(unit, f" {unit}" if unit else "")
    if unit == "none" or abs(value) < 1000:  # noqa: PLR2004 - where the first prefix begins
        return f"{_digits(value, decimals, 2)}{suffix}"
    size, prefix = next((size, prefix) for size, prefix in _SI if abs(value) >= size)
    return f"{_digits(value / size, decimals, 2)} {prefix}{suffix.strip()}".rstrip()


def _scaled(value: float, sizes: tuple[tuple[float, str], ...], base: str, decimals: int | None) -> str:
    for size, name in sizes:
        if abs(value) >= size:
            return f"{_digits(value / size, decimals, 2)} {name}"
    return f"{_digits(value, decimals, 2)}{base if base.startswith(' ') or not base else ' ' + base}"


def _digits(value: float, decimals: int | None, most: int) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    text = f"{value:.{most}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _grouped(digits: str) -> str:
    whole, point, rest = digits.partition(".")
    return f"{int(whole):,}{point}{rest}"


_UNITS: Mapping[str, Callable[[float, int | None], str]] = {
    "dateTimeAsIso": lambda value, _: datetime.fromtimestamp(value / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S"),
    "locale": lambda value, decimals: _grouped(_digits(value, decimals, 3)),
    "percentunit": lambda value, decimals: f"{_digits(value * 100, decimals, 1)} %",
    "bytes": lambda value, decimals: _scaled(value, _BINARY, " B", decimals),
    "s": lambda value, decimals: _scaled(value, _DURATION, "s", decimals),
}
