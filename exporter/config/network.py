"""Addresses as options have them: where to listen, and whom to ask."""

from __future__ import annotations

import re

_LABEL = 63
"""Letters of a host's name between two dots, at most."""


def address(value: str) -> tuple[str, int]:
    """Host and port from `:9836`, `127.0.0.1:9836` or `[::1]:9836`; an empty host is every address."""
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*)):(\d{1,5})", value.strip())
    if not match or int(match[3]) > 65535 or not (match[1] or _resolvable(match[2])):  # noqa: PLR2004 - the last TCP port
        raise ValueError("HOST:PORT, :PORT or [IPV6]:PORT")
    return match[1] or match[2], int(match[3])


def address_text(host: str, port: int) -> str:
    """As `address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _resolvable(host: str) -> bool:
    """Whether it can be asked for at all: Python raises what is no OSError for a label that is empty or too long."""
    if host.isascii():  # without the tables of international names, which are large
        return not host or all(0 < len(label) <= _LABEL for label in host.removesuffix(".").split("."))
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def http_url(value: str) -> str:
    """Without a path; empty is none."""
    if value and not re.fullmatch(r"https?://(\[[0-9a-fA-F:.]+\]|[^:/@?#\[\]\s]+)(:\d{1,5})?/?", value):
        raise ValueError("http://HOST:PORT or https://HOST:PORT")
    return value.rstrip("/")


def web_address(value: str) -> str:
    """Where to ask over HTTP, with a path perhaps; empty is nowhere."""
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
