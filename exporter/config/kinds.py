"""Kinds of option values, addresses too: each turns text into a value, or raises ValueError with what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_LONGEST_SECONDS = 36_500 * 86400.0
"""Longest duration. A longer one is a slip of the key, and more than a thread can wait."""
_DIGITS = 18


def text(value: str) -> str:
    return value


def path(value: str) -> Path:
    return Path(value)


def optional_path(value: str) -> Path | None:
    """Return None for an empty text."""
    return Path(value) if value else None


def boolean(value: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    try:
        return known[value.strip().lower()]
    except KeyError:
        raise ValueError("true or false") from None


def duration(value: str) -> float:
    """Return the seconds of `500ms`, `10s`, `2m`, `1h`, `7d` or a plain number of seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", value.strip())
    if not match:
        raise ValueError("a duration such as 500ms, 10s or 2m")
    seconds = float(match[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}[match[2]]
    if seconds > _LONGEST_SECONDS:
        raise ValueError(f"a duration of at most {duration_text(_LONGEST_SECONDS)}")
    return seconds


def duration_text(seconds: float) -> str:
    """Return a duration as `duration` reads it: 604800 is `7d`, 0.8 `800ms`."""
    for size, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s" if seconds >= 1 or not seconds else f"{seconds * 1000:g}ms"


def positive_duration(value: str) -> float:
    seconds = duration(value)
    if seconds <= 0:
        raise ValueError("a duration above zero")
    return seconds


@dataclass(frozen=True, slots=True)
class DurationUpTo:
    """Takes a duration above zero, up to a number of seconds."""

    longest: float

    def __call__(self, value: str) -> float:
        seconds = positive_duration(value)
        if seconds > self.longest:
            raise ValueError(f"a duration of at most {duration_text(self.longest)}")
        return seconds


def non_negative_int(value: str) -> int:
    if not re.fullmatch(r"\d+", value.strip()):
        raise ValueError("a whole number")
    if len(value.strip()) > _DIGITS:
        raise ValueError(f"a whole number of at most {_DIGITS} digits")
    return int(value)


def number(value: str) -> float:
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError("a number")
    return found


def non_negative(value: str) -> float:
    found = number(value)
    if found < 0:
        raise ValueError("a number from 0 on")
    return found


def ratio(value: str) -> float:
    found = number(value)
    if not 0 <= found <= 1:
        raise ValueError("a number from 0 to 1")
    return found


def names(value: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[,\s]+", value.strip()) if part)


def url_path(value: str) -> str:
    if not re.fullmatch(r"/[A-Za-z0-9_./-]+", value):
        raise ValueError("a path such as /metrics: /, then letters, digits and . _ - /")
    if re.match(r"/(-/|runbooks/|api/v1/allocations$)", value):
        raise ValueError("a path beside /-/, /runbooks/ and /api/v1/allocations")
    return value


@dataclass(frozen=True, slots=True)
class Choice:
    """Takes one of a few words."""

    known: tuple[str, ...]
    or_path: bool = False
    """True if an absolute path is taken as well."""

    def __call__(self, value: str) -> str:
        # YAML 1.1 reads a bare `on` as true.
        meant = {"true": "on", "false": "off"}.get(value, value) if "on" in self.known else value
        if meant not in self.known and not (self.or_path and meant.startswith("/")):
            raise ValueError("one of " + ", ".join((*self.known, *(["an absolute path"] if self.or_path else []))))
        return meant


def choice(*known: str) -> Choice:
    return Choice(known)


@dataclass(frozen=True, slots=True)
class Subset:
    """Takes some of the known names, with commas between."""

    known: tuple[str, ...]

    def __call__(self, value: str) -> tuple[str, ...]:
        given = names(value)
        for name in given:
            if name not in self.known:
                raise ValueError(
                    f"some of {', '.join(self.known)}; {name} is none of them{near_miss(name, self.known)}"
                )
        return given


@dataclass(frozen=True, slots=True)
class Pairs(Generic[T]):
    """Takes `NAME=VALUE,...`: a mapping in the configuration file. Each known name has a kind of its own."""

    kinds: Mapping[str, Callable[[str], Any]]
    make: Callable[[Mapping[str, Any]], T]
    """Makes the option's value from the values by name."""
    pattern: str = ""
    """Regular expression of the names that are not known one by one."""
    kind: Callable[[str], Any] = text
    """Type of the values of those names."""

    def __call__(self, value: str) -> T:
        found: dict[str, Any] = {}
        for part in filter(None, (part.strip() for part in value.split(","))):
            name, equals, raw = (each.strip() for each in part.partition("="))
            kind = self.kinds.get(name, self.kind)
            if name not in self.kinds and not (self.pattern and re.fullmatch(self.pattern, name)):
                raise ValueError(f"NAME=VALUE,... of known names; {name} is none{near_miss(name, self.kinds)}")
            if not (equals and raw):
                raise ValueError(f"NAME=VALUE,...; {name} has no value")
            if name in found:
                raise ValueError(f"NAME=VALUE,...; {name} is there twice")
            try:
                found[name] = kind(raw)
            except ValueError as error:
                raise ValueError(f"{name} to be {error}") from None
        return self.make(found)


def near_miss(wrong: str, known: Iterable[str]) -> str:
    """Return `, did you mean NAME` with the known name that is closest; empty if none is close."""
    import difflib  # noqa: PLC0415 - only for a name that is wrong

    meant = difflib.get_close_matches(wrong, list(known), n=1)
    return f", did you mean {meant[0]}" if meant else ""


_LABEL = 63
"""Letters of a host's name between two dots, at most."""


def address(value: str) -> tuple[str, int]:
    """Host and port from `:9836`, `127.0.0.1:9836` or `[::1]:9836`; an empty host is every address."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*)):(\d{1,5})", value.strip())
    if not match or int(match[3]) > 65535 or not (match[1] or _is_resolvable(match[2])):  # noqa: PLR2004 - the last TCP port
        raise ValueError("HOST:PORT, :PORT or [IPV6]:PORT")
    return match[1] or match[2], int(match[3])


def address_text(host: str, port: int) -> str:
    """Return an address text that `address` accepts."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _is_resolvable(host: str) -> bool:
    """Return whether the name can be resolved: for an empty or long label Python raises what is no OSError."""
    if host.isascii():  # without the tables of international names, which are large
        return not host or all(0 < len(label) <= _LABEL for label in host.removesuffix(".").split("."))
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def http_url(value: str) -> str:
    """Return a URL without a path; empty is none."""
    if value and not re.fullmatch(r"https?://(\[[0-9a-fA-F:.]+\]|[^:/@?#\[\]\s]+)(:\d{1,5})?/?", value):
        raise ValueError("http://HOST:PORT or https://HOST:PORT")
    return value.rstrip("/")


def web_address(value: str) -> str:
    """Return an HTTP address that may have a path; empty is none."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - few commands ask anybody

    try:
        parts = urlsplit(value)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and parts.port != 0
    except ValueError:  # no port, half an IPv6 address, a label of more than 63 letters
        host, usable = b"", False
    if value and not (host and usable and value.isprintable() and " " not in value):
        raise ValueError("http://HOST or https://HOST")
    return value


def without_password(address: str) -> str:
    """An address as it may be shown."""
    return re.sub(r"(?<=://)[^/?#]*@", "", address)
